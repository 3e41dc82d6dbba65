import { Notification } from '@jupyterlab/apputils';
import { afterEach, expect, it, vi } from 'vitest';

import { IFinding } from '../api';
import { COMMANDS } from '../actions/commandIDs';
import { findingGroups, hostNumbers } from '../labels/doctor';
import { keyOf } from '../model/resources';
import { answerDialog, disposeWidgets, listOf, openPanel } from './opened';
import { aTPU, trans } from './server';

const CHECK = 'POST tpus/us-central1-a~my-tpu/doctor';

function aFinding(more: Partial<IFinding> = {}): IFinding {
  const connected = { check: 'connection', message: 'Connected.' } as const;
  return { ...connected, host: 0, state: 'ok', hint: '', ...more };
}

afterEach(() => {
  Notification.dismiss();
  disposeWidgets();
});

async function check(
  status: number,
  body: object
): Promise<() => Promise<void>> {
  const tpu = aTPU();
  const { commands } = await openPanel({
    ...listOf(tpu),
    [CHECK]: [status, body]
  });
  const done = commands.execute(COMMANDS.check, { tpu: keyOf(tpu) });
  return () => done as Promise<void>;
}

it('shows problems first, each with its hosts and what to do', async () => {
  const held = aFinding({
    check: 'holders',
    host: 1,
    state: 'problem',
    message: 'The chips are in use by process 7 of root: train.py.',
    hint: 'Stop that process.'
  });
  const findings = [aFinding(), aFinding({ host: 1 }), held];
  const done = await check(200, { healthy: false, findings });
  const text = await answerDialog('Close');
  await done();
  expect(text).toContain('my-tpu Has Problems');
  expect(text).toContain(
    'ProblemHost 1: The chips are in use by process 7 of root: train.py.' +
      'Stop that process.OKHosts 0–1: Connected.'
  );
});

it('says that there is no problem', async () => {
  const done = await check(200, { healthy: true, findings: [aFinding()] });
  const text = await answerDialog('Close');
  await done();
  expect(text).toContain('my-tpu: No Problem Found');
  expect(text).toContain('OKConnected.');
});

it('notifies why a TPU could not be checked', async () => {
  const message = 'my-tpu is STOPPED.';
  const done = await check(409, {
    message,
    reason: 'CONFLICT',
    hint: 'Start it.'
  });
  await done();
  await vi.waitFor(() =>
    expect(
      Notification.manager.notifications.map(each => each.message)
    ).toEqual(['my-tpu is STOPPED. Start it.'])
  );
});

it('counts hosts in runs, and keeps apart what differs', () => {
  expect(hostNumbers([0, 1, 2, 5], trans)).toBe('Hosts 0–2, 5:');
  const other = aFinding({ host: 1, message: 'Not connected.' });
  expect(findingGroups([aFinding(), other])).toHaveLength(2);
});

import { Notification } from '@jupyterlab/apputils';
import { expect, it } from 'vitest';

import { hostNumbers } from '../language/hostRanges';
import { IFinding } from '../rest/api';
import { findingGroups } from '../setup/doctorLabels';
import {
  answerDialog,
  button,
  dialogInputs,
  notified,
  openAction,
  openPanel,
  press,
  type
} from './opened';
import { aTPU, refused } from './server';

const CHECK = 'POST tpus/us-central1-a~my-tpu/doctor';

function aFinding(more: Partial<IFinding> = {}): IFinding {
  const connected = { check: 'connection', message: 'Connected.' } as const;
  return { ...connected, host: 0, state: 'ok', hint: '', ...more };
}

function check(...answer: [number, object]) {
  return openAction('check', aTPU(), { [CHECK]: answer });
}

it('shows problems first, each with its hosts and what to do', async () => {
  const held = aFinding({
    check: 'holders',
    host: 1,
    state: 'problem',
    message: 'The chips are in use by process 7 of root: train.py.',
    hint: 'Stop that process.'
  });
  const image = aFinding({ check: 'image', host: null, message: 'It fits.' });
  const findings = [image, aFinding(), aFinding({ host: 1 }), held];
  const { done } = await check(200, { healthy: false, findings });
  const text = await answerDialog('Close');
  await done;
  expect(text).toContain('my-tpu has problems');
  expect(text).toContain(
    'ProblemHost 1: The chips are in use by process 7 of root: train.py.' +
      'Stop that process.OKIt fits.OKHosts 0–1: Connected.'
  );
});

it('says that there is no problem', async () => {
  const { done } = await check(200, { healthy: true, findings: [aFinding()] });
  const text = await answerDialog('Close');
  await done;
  expect(text).toContain('my-tpu: no problem found');
  expect(text).toContain('OKConnected.');
});

it('notifies why a TPU could not be checked', async () => {
  const answer = refused('my-tpu is STOPPED.', 'CONFLICT', 'Start it.');
  const { done } = await check(...answer);
  await done;
  expect(notified()).toEqual(['error: my-tpu is STOPPED. Start it.']);
});

it('counts hosts in runs, and keeps apart what differs', () => {
  expect(hostNumbers([0, 1, 2, 5])).toBe('Hosts 0–2, 5:');
  const other = aFinding({ host: 1, message: 'Not connected.' });
  expect(findingGroups([aFinding(), other])).toHaveLength(2);
});

it('sets up the network where no firewall rule lets SSH in, after showing what changes', async () => {
  const closed = aFinding({
    check: 'firewall',
    host: null,
    state: 'problem',
    message: 'No firewall rule of the network default allows SSH.'
  });
  const change = 'Create the firewall rule jupyter-tpu-ssh-default.';
  const plan = {
    network: 'default',
    sources: ['203.0.113.4/32'],
    found: ['The network default exists.'],
    changes: [change],
    blocked: [],
    warnings: []
  };
  const { node, server } = await openPanel({
    'POST doctor': [200, { healthy: false, findings: [closed] }],
    'POST networks': [200, plan]
  });
  button(node, 'Check Setup…').click();
  await answerDialog('Set Up Network…');
  const [address] = await dialogInputs(1);
  type(address, '203.0.113.4');
  await answerDialog('Continue');
  const text = await answerDialog('Set Up');
  expect(text).toContain(`Change${change}OKThe network default exists.`);
  await expect
    .poll(() => Notification.manager.notifications)
    .toContainEqual(
      expect.objectContaining({
        message: 'default is set up.',
        // Without a time it would not pop up.
        options: expect.objectContaining({ autoClose: 8000 })
      })
    );
  // What was shown is what is done, whatever the address is by then.
  expect(server.bodies('POST networks')).toEqual([
    { network: 'default', sources: ['203.0.113.4'], dry_run: true },
    { network: 'default', sources: plan.sources, dry_run: false }
  ]);
});

it('adds the SSH key where OS Login is used, after showing to which account', async () => {
  const rejected = aFinding({
    check: 'os-login',
    host: null,
    state: 'warning',
    message: 'The project p uses OS Login.'
  });
  const change = 'Add the key SHA256:x to the Google account ann@example.com.';
  const added = {
    changes: [change],
    warnings: [],
    in_account: { user: 'ann_example_com', until: '' }
  };
  const { node, server } = await openPanel({
    'POST doctor': [200, { healthy: true, findings: [rejected] }],
    'POST ssh-key': [200, added]
  });
  button(node, 'Check Setup…').click();
  await answerDialog('Add SSH Key…');
  expect(await answerDialog('Add')).toContain(change);
  await expect
    .poll(notified)
    .toContain(
      'success: The SSH key is added. You log in to hosts as ann_example_com.'
    );
  expect(server.bodies('POST ssh-key')).toEqual([{ dry_run: true }, {}]);
});

it('checks the setup where the TPUs can not be listed, and where none could be created', async () => {
  const problem = { message: 'Not logged in.', reason: 'NO_CREDENTIALS' };
  const off = aFinding({
    check: 'api',
    host: null,
    state: 'problem',
    message: 'The API is disabled.'
  });
  const { actions, node, server } = await openPanel({
    'GET tpus': [200, { tpus: [], problem: { ...problem, hint: '' } }],
    'POST tpus': [403, { ...problem, hint: '' }],
    'POST doctor': [200, { healthy: false, findings: [off] }]
  });
  button(node, 'Check Setup…').click();
  const text = await answerDialog('Close');
  expect(text).toContain('There are problems');
  expect(text).toContain('ProblemThe API is disabled.');
  actions.openCreateForm();
  await press(node, 'Create');
  await press(node, 'Check Setup…');
  await answerDialog('Close');
  expect(server.bodies('POST doctor')).toMatchObject([
    {},
    { type: 'v5litepod-8', zone: 'us-central1-a', tier: 'on-demand' }
  ]);
});

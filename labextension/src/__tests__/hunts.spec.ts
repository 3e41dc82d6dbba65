import { describe, expect, it } from 'vitest';

import { IHunt, IHuntAttempt } from '../rest/api';
import { answerDialog, button, hides, openPanel, shows } from './opened';
import {
  aCost,
  anOperation,
  aProblem,
  aTPU,
  catalogWith,
  listOf
} from './server';

function anAttempt(more: Partial<IHuntAttempt> = {}): IHuntAttempt {
  return {
    number: 1,
    zone: 'us-west4-a',
    type: 'v5litepod-8',
    tier: 'spot',
    api: 'tpu',
    state: 'failed',
    started: '2026-10-14T10:00:00Z',
    ended: '2026-10-14T10:01:00Z',
    problem: aProblem(
      'There is no more capacity in the zone.',
      'NO_CAPACITY',
      '',
      { scope: 'zone' }
    ),
    unattended: false,
    ...more
  };
}

function aHunt(more: Partial<IHunt> = {}): IHunt {
  return {
    id: 'h1',
    name: 'my-tpu',
    state: 'running',
    message: 'Waiting',
    zone: '',
    request: {
      tpu: { name: 'my-tpu', type: 'v5litepod-8', zone: null, connect: null },
      zones: ['us-central1-a', 'us-west4-a'],
      types: ['v5litepod-8'],
      tiers: ['on-demand', 'spot'],
      deadline: '',
      queued: null,
      direct: false,
      again: false,
      when_preempted: false
    },
    queued: false,
    candidates: [],
    attempts: [anAttempt()],
    attempted: 1,
    next_attempt: '2026-10-14T10:02:00Z',
    waiting: false,
    problem: null,
    created: '2026-10-14T10:00:00Z',
    ended: '',
    ...more
  };
}

const operation = anOperation({
  id: 'h1',
  kind: 'hunt',
  zone: '',
  message: 'Attempt 1 failed: No more capacity. The next one begins at 10:02.'
});
const hunting = {
  'GET hunts': [200, [aHunt()]] as [number, unknown],
  'GET operations': [200, [operation]] as [number, unknown]
};

function tick(node: HTMLElement, label: string): void {
  const labelNode = [...node.querySelectorAll('label')].find(one =>
    one.textContent?.startsWith(label)
  );
  labelNode!.querySelector('input')!.click();
}

describe('a hunt', () => {
  it('is a new TPU with other zones and tiers to try', async () => {
    const { node, server } = await openPanel({
      'POST hunts': [201, aHunt()],
      'GET operations/h1': [200, operation]
    });
    button(node, 'New TPU').click();
    await shows(node, 'Try until one is available');
    tick(node, 'Try until one is available');
    await shows(node, 'Other zones to try', 'Other tiers to try');
    tick(node, 'us-west4-a');
    const tiers = [...node.querySelectorAll('fieldset')].find(one =>
      one.textContent?.startsWith('Other tiers')
    );
    tick(tiers!, 'Spot');
    button(node, 'Start Hunt').click();
    await shows(node, 'Hunting for my-tpu');
    expect(server.bodies('POST hunts')[0]).toMatchObject({
      tpu: { name: 'my-tpu', type: 'v5litepod-8' },
      zones: ['us-central1-a', 'us-west4-a'],
      types: ['v5litepod-8'],
      tiers: ['on-demand', 'spot'],
      deadline: '',
      queued: false
    });
  });

  it('of many hours waits in the queue, unless the user does not want that', async () => {
    const { actions, node } = await openPanel();
    const form = actions.forms.create;
    button(node, 'New TPU').click();
    await shows(node, 'Try until one is available');
    tick(node, 'Try until one is available');
    const ticked = () =>
      [...node.querySelectorAll('label')]
        .find(one => one.textContent?.startsWith('Wait in Google’s queue'))!
        .querySelector('input')!.checked;
    await shows(node, 'Wait in Google’s queue');
    expect(ticked()).toBe(false);
    form.set('hours', '8');
    await expect.poll(ticked).toBe(true);
    expect(form.huntRequest.queued).toBe(true);
    await shows(node, 'Also try without the queue');
    tick(node, 'Also try without the queue');
    await expect.poll(() => form.huntRequest.direct).toBe(true);
    tick(node, 'Wait in Google’s queue');
    await expect.poll(ticked).toBe(false);
    expect(form.huntRequest).toMatchObject({ queued: false, direct: false });
  });

  it('says what each choice costs before it begins, where that is billed', async () => {
    const cost = aCost({ since: '', usd: null });
    const candidate = {
      ...{ zone: 'us-west4-a', type: 'v5litepod-8', tier: 'on-demand', cost },
      queued: false,
      ...{ version: '', attempts: 0, retry_at: '', problem: null },
      ruled_out: false
    };
    const { node, server } = await openPanel({
      ...catalogWith({ emulated: false }),
      'POST hunt-quotes': [200, [candidate]],
      'POST hunts': [201, aHunt()],
      'GET operations/h1': [200, operation]
    });
    button(node, 'New TPU').click();
    await shows(node, 'Try until one is available');
    tick(node, 'Try until one is available');
    await shows(node, 'Other zones to try');
    expect(node.textContent).not.toContain('Hunt again');
    tick(node, 'Spot');
    await shows(node, 'Hunt again each time it is preempted');
    tick(node, 'Hunt again');
    await hides(node, 'Stop trying after');
    button(node, 'Start Hunt').click();
    const question = await answerDialog('Start Hunt');
    expect(question).toContain('v5litepod-8 · us-west4-a: About $9.60 an hour');
    expect(question).toContain('When it is preempted, another one is created');
    await server.counts('POST hunts');
    expect(server.bodies('POST hunts')[0]).toMatchObject({ again: true });
  });

  it('shows its attempts, and the TPU that it is trying to create as one of them', async () => {
    const { changes, node } = await openPanel(hunting);
    await shows(
      node,
      'Hunting for my-tpu',
      'Next attempt at',
      'No attempt begins while this computer is off.',
      'v5litepod-8 · Spot · us-west4-a',
      'There is no more capacity in the zone.'
    );
    expect(node.textContent).not.toContain('The next one begins');
    changes.hunt(aHunt({ waiting: true }));
    await shows(node, 'It begins when my-tpu is preempted.');
    const trying = anAttempt({ number: 2, state: 'trying', problem: null });
    changes.tpu(aTPU({ zone: 'us-west4-a', state: 'CREATING' }));
    changes.operation({ ...operation, zone: 'us-west4-a' });
    changes.hunt(
      aHunt({ attempts: [anAttempt(), trying], attempted: 2, next_attempt: '' })
    );
    await shows(node, 'trying', 'No other attempt begins while');
    expect(node.querySelectorAll('.jp-tpu-Hunt .jp-tpu-Row')).toHaveLength(2);
    expect(node.querySelector('li.jp-tpu-TPU')).toBeNull();
    changes.operation({ ...operation, zone: 'us-west4-a', state: 'done' });
    await shows(node, 'Found capacity and created my-tpu');
    expect(node.querySelector('li.jp-tpu-TPU')).toBeTruthy();
  });

  it('is stopped by a button', async () => {
    const { node, server } = await openPanel({
      ...hunting,
      'DELETE operations/h1': [202, { ...operation, state: 'cancelled' }]
    });
    button(node, 'Stop').click();
    await shows(node, 'The hunt for my-tpu was stopped');
    expect(server.count('DELETE operations/h1')).toBe(1);
  });

  it('that has failed is started again with the same choices', async () => {
    const problem = { ...anAttempt().problem!, message: 'No quota anywhere.' };
    const failed = { ...operation, state: 'failed', problem };
    const { node } = await openPanel({
      ...listOf(),
      'GET hunts': [200, [aHunt({ state: 'failed' })]],
      'GET operations': [200, [failed]]
    });
    await shows(node, 'The hunt for my-tpu has failed', 'No quota anywhere.');
    button(node, 'Try Again').click();
    await shows(node, 'Other zones to try');
    const ticked = [
      ...node.querySelectorAll<HTMLInputElement>('fieldset input')
    ]
      .filter(one => one.type === 'checkbox' && one.checked)
      .map(one => one.closest('label')!.textContent);
    expect(ticked).toEqual(['us-west4-a', 'Spot']);
  });
});

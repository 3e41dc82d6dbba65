// One kernel on several TPUs: where it is offered, and what is asked.

import { expect, it } from 'vitest';

import { availableActions } from '../model/availableActions';
import { answerDialog, dialogInputs, notified, openAction } from './opened';
import { aTPU, connectedTPU, listOf } from './server';

const SLICES = 'POST tpus/us-central1-a~my-tpu/kernels/slices';
const TPU = connectedTPU({ queued: 'job' });
const OTHERS = [
  connectedTPU({ name: 'job-1', queued: 'job' }),
  connectedTPU({ name: 'single' })
];

it('is offered where other connected TPUs of the zone have the environment', () => {
  const offered = (...tpus: (typeof TPU)[]) =>
    availableActions(TPU, [], [TPU, ...tpus]).includes('slices');
  expect(offered()).toBe(false);
  expect(offered(aTPU({ name: 'bare' }))).toBe(false);
  expect(offered(connectedTPU({ name: 'far', zone: 'us-west4-a' }))).toBe(
    false
  );
  expect(offered(connectedTPU({ name: 'off', state: 'STOPPED' }))).toBe(false);
  expect(offered(OTHERS[1])).toBe(true);
});

it('adds the kernel on the TPUs that are ticked: at first those of the queued resource', async () => {
  const { done, server } = await openAction('slices', TPU, {
    ...listOf(TPU, ...OTHERS),
    [SLICES]: [200, { display_name: 'Python 3.12 · my-tpu + job-1' }]
  });
  const ticks = await dialogInputs(2);
  expect(ticks.map(({ checked }) => checked)).toEqual([true, false]);
  expect(await answerDialog('Add Kernel')).toContain('job-1 (v5litepod-8)');
  await done;
  expect(server.bodies(SLICES)).toEqual([
    { environment: 'default', slices: ['job-1'] }
  ]);
  expect(notified()[0]).toContain(
    '“Python 3.12 · my-tpu + job-1” is in the launcher'
  );
});

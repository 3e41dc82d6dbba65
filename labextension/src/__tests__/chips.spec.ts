import { expect, it } from 'vitest';

import { IChipHolder, IChipUse } from '../rest/api';
import {
  answerDialog,
  choose,
  dialogSelects,
  disposeWidgets,
  notified,
  openAction
} from './opened';
import { Answer, aTPU, connectedTPU } from './server';

const LOOK = 'GET tpus/us-central1-a~my-tpu/chips';
const FREE = 'POST tpus/us-central1-a~my-tpu/chips/free';
const CHECK = 'POST tpus/us-central1-a~my-tpu/doctor';

function aHolder(more: Partial<IChipHolder> = {}): IChipHolder {
  return {
    host: 0,
    pid: 7,
    start: '100',
    since: '',
    user: 'root',
    command: 'python3 train.py',
    devices: [],
    container: '',
    stop: '',
    kernel: '',
    notebook: '',
    job: '',
    run: '',
    ...more
  };
}

function useOf(...holders: IChipHolder[]): object {
  const hosts = [0, 1].map(host => ({
    host,
    devices: [],
    holders: holders.filter(holder => holder.host === host),
    complete: true,
    lock_owner: '',
    problem: null
  }));
  return { tpu: 'my-tpu', zone: 'us-central1-a', hosts };
}

it('names what uses the chips, ends just that, and says that they are free', async () => {
  const kernel = aHolder({ kernel: 'k1', notebook: 'work/train.ipynb' });
  const other = aHolder({
    host: 1,
    pid: 8,
    start: '200',
    container: 'abc',
    stop: 'docker stop abc'
  });
  const { server, done } = await openAction('chips', aTPU(), {
    [LOOK]: [200, useOf(kernel, other)],
    [FREE]: [200, { ended: [], use: useOf(), free: true }]
  });
  const text = await answerDialog('Stop All');
  await done;
  expect(text).toContain('Host 0: Kernel of train.ipynbProcess 7 of root');
  expect(text).toContain(
    'Host 1: python3 train.pyProcess 8 of root · in the container abc'
  );
  expect(text).toContain('stops the container on the host: docker stop abc');
  expect(text).toContain('The variables of kernels will be lost.');
  expect(server.bodies(FREE)).toEqual([
    {
      holders: [
        { host: 0, pid: 7, start: '100' },
        { host: 1, pid: 8, start: '200' }
      ],
      locks: [0, 1]
    }
  ]);
  expect(notified()).toEqual(['success: The chips of my-tpu are free.']);
});

it('deletes a lock file that is left over, and only after a question', async () => {
  const use = useOf() as IChipUse;
  use.hosts[1].lock_owner = 'root';
  const { server, done } = await openAction('chips', aTPU(), {
    [LOOK]: [200, use],
    [FREE]: [200, { ended: [], locks: [], use: useOf(), free: true }]
  });
  const text = await answerDialog('Delete');
  await done;
  expect(text).toContain(
    'Host 1: root left a libtpu lock file. It blocks your programs.'
  );
  expect(server.bodies(FREE)).toEqual([{ holders: [], locks: [1] }]);
});

it('ends nothing without an answer, and says what could not be ended', async () => {
  const job = aHolder({ job: 'j1', host: 1 });
  const problem = { message: 'The host is gone.', reason: 'UNREACHABLE' };
  const answers: { [call: string]: Answer } = {
    [LOOK]: [200, useOf(job)],
    [FREE]: [
      200,
      {
        ended: [{ host: 1, pid: 7, outcome: 'unknown', problem }],
        use: useOf(job),
        free: false
      }
    ]
  };
  const first = await openAction('chips', aTPU(), answers);
  expect(await answerDialog('Cancel')).toContain('Host 1: Job j1');
  await first.done;
  expect(first.server.bodies(FREE)).toEqual([]);
  disposeWidgets();

  const second = await openAction('chips', aTPU(), answers);
  await answerDialog('Stop All');
  await second.done;
  await expect
    .poll(notified)
    .toEqual([
      'error: The chips of my-tpu may still be in use. Job j1 (Process 7 of root) The host is gone.'
    ]);
});

it('is offered where the check found what uses the chips', async () => {
  const message = 'The chips are in use by process 7 of root: train.py.';
  const held = { check: 'holders', host: 0, state: 'problem', message };
  const { done } = await openAction('check', aTPU(), {
    [CHECK]: [200, { healthy: false, findings: [{ ...held, hint: '' }] }],
    [LOOK]: [200, useOf()]
  });
  await answerDialog('Free Chips…');
  expect(await answerDialog('Close')).toContain('No process uses the chips.');
  await done;
});

it('offers kernels with chips of their own, as many as the user chooses', async () => {
  const SPLIT = 'POST tpus/us-central1-a~my-tpu/chips/split';
  const tpu = connectedTPU({ chips: 8 });
  const kernels = [0, 4].map(first => ({
    kernelspec: `chip${first}`,
    display_name: `my-tpu · chips ${first}-${first + 3}`
  }));
  const { done, server } = await openAction('split', tpu, {
    [SPLIT]: [200, { kernels, note: 'Not tried on hardware.' }]
  });
  await expect.poll(dialogSelects).toHaveLength(1);
  const [select] = dialogSelects();
  expect([...select.options].map(option => option.text)).toEqual([
    'One chip for each',
    '2 chips for each',
    '4 chips for each',
    'All chips for one kernel'
  ]);
  choose(select, '4');
  await answerDialog('Offer');
  await expect
    .poll(() => document.querySelector('.jp-Dialog li'))
    .not.toBeNull();
  const text = await answerDialog('Close');
  await done;
  expect(text).toContain('my-tpu · chips 0-3my-tpu · chips 4-7');
  expect(text).toContain('Not tried on hardware.');
  expect(server.bodies(SPLIT)).toEqual([{ environment: 'default', each: 4 }]);
  expect(notified()).toEqual([]);
});

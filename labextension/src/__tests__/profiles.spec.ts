import { expect, it } from 'vitest';

import { IMemoryProfile } from '../rest/api';
import {
  answerDialog,
  dialogInputs,
  notified,
  openAction,
  type
} from './opened';
import { anApp, anOperation, connectedTPU, someHosts } from './server';

const PROFILE = 'POST tpus/us-central1-a~my-tpu/profiles';
const MEMORY = 'GET tpus/us-central1-a~my-tpu/memory';

it('traces all hosts, opens the trace, and names a host that failed', async () => {
  const tpu = connectedTPU();
  const problem = { message: 'Host 1 is away.', reason: 'UNREACHABLE' };
  const traces = [
    { host: 0, state: 'done', problem: null, kernel_idle: true },
    { host: 0, state: 'idle', problem },
    { host: 1, state: 'failed', problem: { ...problem, hint: 'Try again.' } }
  ];
  const app = anApp({ id: 'a1', kind: 'tensorboard', logdir: '~/traces' });
  const ended = anOperation({
    kind: 'profile',
    state: 'done',
    app: 'a1',
    result: { traces }
  });
  const { done, server, shown } = await openAction('profile', tpu, {
    [PROFILE]: [202, ended],
    'GET apps': [200, [app]]
  });
  const [, port] = await dialogInputs(2);
  type(port, '9999');
  expect(await answerDialog('Trace')).toContain('Trace my-tpu');
  await done;
  expect(server.bodies(PROFILE)).toEqual([
    { seconds: 3, kernels: [], port: 9999 }
  ]);
  expect(shown).toHaveBeenCalledOnce();
  expect(notified()[0]).toBe(
    'warning: Host 1 was not traced: Host 1 is away. Try again. The kernel on host 0 was idle, so nothing ran. Trace while a cell runs.'
  );
});

it('shows what fills the memory, line by line, and which host has no program', async () => {
  const tpu = connectedTPU({ hosts: someHosts(2) });
  const line = { file: '/tmp/7.py', count: 1, calls: [] };
  const weights = {
    ...line,
    line: 'In[3]:4',
    function: 'make_weights',
    bytes: 3e9
  };
  const profile: IMemoryProfile = {
    host: 0,
    kernel: 'k1',
    notebook: 'work/train.ipynb',
    problem: null,
    devices: { 'TPU:0': 4e9 },
    others: { executable: 0 },
    bytes: 4e9,
    lines: [
      {
        ...line,
        line: 'In[3]:7',
        function: '',
        bytes: 4e9,
        calls: [weights]
      }
    ]
  };
  const none = {
    ...profile,
    host: 1,
    kernel: '',
    notebook: '',
    problem: { message: 'No kernel runs on this host.', hint: 'Run a cell.' }
  };
  const { done } = await openAction('memory', tpu, {
    [MEMORY]: [200, { emulated: true, profiles: [profile, none] }]
  });
  const text = await answerDialog('Close');
  await done;
  expect(text).toContain('Memory of my-tpu');
  expect(text).toContain('Emulated: JAX on the CPU of this computer.');
  expect(text).toContain('Host 0: train.ipynbTPU:0 4.0 GB');
  expect(text).toContain('4.0 GBIn[3]:7 3.0 GBIn[3]:4 make_weights');
  expect(text).toContain('Host 1: No kernel runs on this host. Run a cell.');
});

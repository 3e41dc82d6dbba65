import { expect, it } from 'vitest';

import { answerDialog, button, openPage, press, shows } from './opened';
import { IHostServing } from '../rest/api';
import {
  canStartOnRequest,
  emptyServer,
  serverRequest
} from '../serving/startForm';
import { aJob, anOperation, aTPU, aTunnel } from './server';

const START = 'POST tpus/us-central1-a~my-tpu/model-servers';
const STOP = `${START}/s1/stop`;

/** Types into a field of the dialog. */
async function fill(label: string, text: string): Promise<void> {
  const find = () =>
    [...document.querySelectorAll<HTMLLabelElement>('.jp-Dialog label')].find(
      one => one.textContent?.startsWith(label)
    );
  await expect.poll(find).toBeTruthy();
  const input = find();
  const field =
    document.getElementById(input!.htmlFor) ?? input!.querySelector('input');
  const set = Object.getOwnPropertyDescriptor(
    HTMLInputElement.prototype,
    'value'
  )!.set!;
  set.call(field, text);
  field!.dispatchEvent(new Event('input', { bubbles: true }));
}

function aServer(more: Partial<IHostServing> = {}) {
  const job = aJob({
    id: 's1',
    name: 'gemma',
    serving: {
      port: 8000,
      health: '/health',
      metrics: '/metrics',
      unhealthy_limit: 60,
      shared: false,
      restart_together: true,
      start_on_request: false,
      hold_limit: 300,
      max_price: null,
      confirm_price: false
    }
  });
  job.attempts[0].hosts[0].serving = {
    state: 'healthy',
    since: '',
    problem: '',
    restarts: 0,
    was_healthy: true,
    exposed: '',
    requests: 3.2,
    tokens: 410,
    waiting: null,
    ...more
  };
  return job;
}

it('lists servers of models with their URLs and rates, and stops them', async () => {
  const { changes, node, server } = await openPage(aTPU(), {
    'GET jobs': [200, [aServer()]],
    'GET tunnels': [200, [aTunnel({ port: 8000, local_port: 8001 })]],
    [STOP]: [200, {}]
  });
  await shows(node, 'Model servers', 'gemma', 'healthy');
  await shows(node, 'http://localhost:8001', '3.2 requests/s', '410 tokens/s');
  expect(node.textContent).toContain('Commands that continue without Jupyter');
  const onTwo = aServer();
  const [first] = onTwo.attempts[0].hosts;
  const serving = { ...first.serving!, restarts: 1, problem: 'It was killed.' };
  onTwo.attempts[0].hosts.push({
    ...first,
    host: 1,
    serving: { ...serving, state: 'restarting' }
  });
  changes.job(onTwo);
  await shows(node, 'restarting', 'restarted once', 'Host 1: It was killed.');
  changes.job(
    aServer({
      state: 'restarting',
      restarts: 2,
      problem: 'The job exited with code 3.'
    })
  );
  await shows(node, 'restarting', 'restarted 2 times', 'exited with code 3');
  button(node, 'Stop gemma…').click();
  expect(await answerDialog('Stop')).toContain('Requests to it will fail');
  await expect.poll(() => server.count(STOP)).toBe(1);
});

it('says that other machines can reach a server', async () => {
  const job = aServer({ exposed: '0.0.0.0' });
  const { node } = await openPage(aTPU(), { 'GET jobs': [200, [job]] });
  await shows(node, 'other machines in the network of the TPU can reach it');
});

it('starts a server by a dialog, and keeps what is rare folded', async () => {
  const { node, server } = await openPage(aTPU(), {
    [START]: [202, anOperation({ kind: 'serve' })]
  });
  await shows(node, 'Models that answer requests');
  await press(node, 'Start a model server on my-tpu');
  await fill('Command', 'python server.py');
  await fill('Health path', '/health');
  const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
  expect(dialog.textContent).not.toContain('Local port');
  await press(dialog, 'More options');
  await fill('Local port', '9000');
  await answerDialog('Start');
  await expect.poll(() => server.count(START)).toBe(1);
  expect(server.bodies(START)[0]).toMatchObject({
    command: ['sh', '-c', 'python server.py'],
    health: '/health',
    port: 8000,
    local_port: 9000,
    vllm: '',
    ray: ''
  });
  expect(server.bodies(START)[0]).not.toHaveProperty('start_on_request');
});

it('asks for what is served, at the price that was shown', () => {
  const tpu = aTPU({ cost: { ...aTPU().cost, usd_per_hour: 1.2 } });
  const model = { kind: 'vllm' as const, vllm: 'a/b', more: '--seed  1' };
  expect(
    serverRequest(tpu, { ...emptyServer(tpu), ...model, request: true })
  ).toMatchObject({
    vllm: 'a/b',
    command: ['--seed', '1'],
    start_on_request: true,
    confirm_price: true,
    max_price: 1.2
  });
  const app = { kind: 'ray' as const, ray: 'm:app', command: 'python s.py' };
  expect(serverRequest(tpu, { ...emptyServer(tpu), ...app })).toMatchObject({
    ray: 'm:app',
    command: []
  });
  expect(canStartOnRequest(aTPU({ tier: 'spot' }))).toBe(false);
});

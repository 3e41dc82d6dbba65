import { expect, it } from 'vitest';

import { answerDialog, button, openPage, shows } from './opened';
import { IHostServing } from '../rest/api';
import { aJob, aTPU, aTunnel } from './server';

const STOP = 'POST tpus/us-central1-a~my-tpu/model-servers/s1/stop';

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

// Ray on the hosts of a TPU: the question before it starts, and what can be done while it runs.

import { expect, it } from 'vitest';

import { IRay } from '../rest/api';
import { answerDialog, dialogInputs, notified, openAction } from './opened';
import { anApp, anOperation, aProblem, connectedTPU } from './server';

const RAY = 'tpus/us-central1-a~my-tpu/ray';
const TPU = connectedTPU();

function aCluster(more: Partial<IRay> = {}): IRay {
  return {
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    state: 'running',
    job: '1a2b3c4d',
    environment: 'default',
    version: '2.60.0',
    address: '10.0.0.2:6379',
    dashboard_port: 8265,
    hosts: [
      { host: 0, address: '10.0.0.2', state: 'alive', chips: 4, processors: 8 },
      {
        host: 1,
        address: '10.0.0.3',
        state: 'missing',
        chips: 0,
        processors: 0
      }
    ],
    problem: null,
    ...more
  };
}

it('starts Ray after a question, and shows its dashboard', async () => {
  const app = anApp({ id: 'r1', kind: 'ray', name: 'Ray', logdir: '' });
  const ended = anOperation({ kind: 'ray', state: 'done', app: 'r1' });
  const { done, server, shown } = await openAction('ray', TPU, {
    [`GET ${RAY}`]: [
      200,
      aCluster({
        state: 'failed',
        hosts: [],
        problem: aProblem('Ray has ended on host 0.', 'ENVIRONMENT')
      })
    ],
    [`POST ${RAY}`]: [202, ended],
    'GET apps': [200, [app]]
  });
  const [install] = await dialogInputs(1);
  expect(install.checked).toBe(true);
  expect(await answerDialog('Start')).toContain('Ray has ended on host 0.');
  await done;
  expect(server.bodies(`POST ${RAY}`)).toEqual([
    { environment: 'default', install: true }
  ]);
  // The tab keeps no port: it is opened again by what knows it.
  expect(shown).toHaveBeenCalledWith(
    expect.objectContaining({ port: 0, host: 0, logdir: '', name: 'Ray' })
  );
});

it('names the hosts of a cluster that runs, opens its dashboard, and stops it', async () => {
  const { actions, done, server, shown } = await openAction('ray', TPU, {
    [`GET ${RAY}`]: [200, aCluster()],
    [`DELETE ${RAY}`]: [200, aCluster({ state: 'stopping', hosts: [] })]
  });
  const text = await answerDialog('Open Dashboard');
  expect(text).toContain('Ray 2.60.0 is running at 10.0.0.2:6379.');
  expect(text).toContain('Host 0: 4 chips, 8 processors');
  expect(text).toContain('Host 1 has not joined');
  await done;
  expect(shown).toHaveBeenCalledOnce();
  const stops = actions.act('ray', TPU);
  await answerDialog('Stop Ray');
  await stops;
  expect(server.count(`DELETE ${RAY}`)).toBe(1);
  expect(notified()).toEqual(['success: Ray on my-tpu is stopping.']);
});

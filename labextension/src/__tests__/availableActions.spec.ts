import { expect, it } from 'vitest';

import { availableActions, primaryAction } from '../model/availableActions';
import { IOperation, ITPU } from '../rest/api';
import { anOperation, aTPU, connectedTPU, someHosts } from './server';

const connecting = anOperation();
const deleting = anOperation({ kind: 'delete' });
const stopping = anOperation({ kind: 'stop' });
const failed = anOperation({ state: 'failed' });
const opening = anOperation({ kind: 'tensorboard' });

/** What is done on the hosts of each TPU that is ready. */
const ON_HOSTS =
  'terminal run job check chips browse upload download copy sync share tensorboard';
const WITH_KERNELS = `notebook console example profile memory split environment ${ON_HOSTS} ray serve app tunnel sessions guard disconnect delete replace stop`;
const READY = `connect environment ${ON_HOSTS} serve app tunnel sessions`;

/** What can be done, what most want, and with which TPUs that is so, while which operations run. */
it.each<[string, string | undefined, ...[string, ITPU, IOperation?][]]>([
  [
    `${READY} guard delete replace stop`,
    'connect',
    ['a ready one', aTPU()],
    ['one that could not be connected', aTPU(), failed]
  ],
  [
    WITH_KERNELS,
    'notebook',
    ['a connected one', connectedTPU()],
    ['one on which TensorBoard is being opened', connectedTPU(), opening]
  ],
  [
    `connect ${WITH_KERNELS}`,
    'connect',
    ['one that needs the user', connectedTPU({ connection: 'needs-attention' })]
  ],
  [
    `${ON_HOSTS} serve app tunnel sessions guard disconnect delete`,
    undefined,
    ['a connecting one', aTPU({ connection: 'connecting' }), connecting]
  ],
  [
    '',
    undefined,
    ['one that is being stopped', aTPU(), stopping],
    ['one that is being deleted', connectedTPU(), deleting]
  ],
  [
    'delete replace start',
    'start',
    ['a stopped one', aTPU({ state: 'STOPPED' })]
  ],
  [
    'delete replace',
    'delete',
    ['a preempted one', aTPU({ state: 'PREEMPTED' })]
  ],
  [
    `${READY} detach`,
    'connect',
    ['a machine that is not ours to stop', aTPU({ attached: true })]
  ],
  [
    `${READY} guard delete replace`,
    'connect',
    ['a pod, which Google does not stop', aTPU({ hosts: someHosts(2) })],
    ['a spot one, which Google does not stop', aTPU({ tier: 'spot' })]
  ],
  [
    `${READY} guard delete replace report`,
    'connect',
    [
      'one that Google does not start again',
      aTPU({ tier: 'flex-start', api: 'compute' })
    ]
  ]
])('can do what the state of a TPU allows: %s', (all, main, ...tpus) => {
  for (const [what, tpu, running] of tpus) {
    const able = availableActions(tpu, running ? [running] : []);
    expect(able.join(' '), what).toBe(all);
    expect(primaryAction(able), what).toBe(main);
  }
});

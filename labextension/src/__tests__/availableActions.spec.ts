import { expect, it } from 'vitest';

import { availableActions, primaryAction } from '../model/availableActions';
import { IHost, IOperation, ITPU } from '../rest/api';
import { anOperation, aTPU, connectedTPU } from './server';

const connecting = anOperation();
const deleting = anOperation({ kind: 'delete' });
const stopping = anOperation({ kind: 'stop' });
const failed = anOperation({ state: 'failed' });
const host: IHost = {
  index: 0,
  internal_address: '',
  external_address: '',
  link: { state: 'up', since: '', problem: null }
};

it.each<[string, ITPU, IOperation[], string, string | undefined]>([
  [
    'a ready one',
    aTPU(),
    [],
    'connect environment terminal run job check chips browse upload download copy sync share tensorboard app tunnel guard delete stop',
    'connect'
  ],
  [
    'a connected one',
    connectedTPU(),
    [],
    'notebook console example profile memory split environment terminal run job check chips browse upload download copy sync share tensorboard ray app tunnel guard disconnect delete stop',
    'notebook'
  ],
  [
    'one that needs the user',
    connectedTPU({ connection: 'needs-attention' }),
    [],
    'connect notebook console example profile memory split environment terminal run job check chips browse upload download copy sync share tensorboard ray app tunnel guard disconnect delete stop',
    'connect'
  ],
  [
    'one that is being connected',
    aTPU({ connection: 'connecting' }),
    [connecting],
    'terminal run job check chips browse upload download copy sync share tensorboard app tunnel guard disconnect delete',
    undefined
  ],
  [
    'one that could not be connected',
    aTPU(),
    [failed],
    'connect environment terminal run job check chips browse upload download copy sync share tensorboard app tunnel guard delete stop',
    'connect'
  ],
  [
    'one on which TensorBoard is being opened',
    connectedTPU(),
    [anOperation({ kind: 'tensorboard' })],
    'notebook console example profile memory split environment terminal run job check chips browse upload download copy sync share tensorboard ray app tunnel guard disconnect delete stop',
    'notebook'
  ],
  ['one that is being stopped', aTPU(), [stopping], '', undefined],
  ['one that is being deleted', connectedTPU(), [deleting], '', undefined],
  ['a stopped one', aTPU({ state: 'STOPPED' }), [], 'delete start', 'start'],
  ['a preempted one', aTPU({ state: 'PREEMPTED' }), [], 'delete', 'delete'],
  [
    'an attached machine, which is not ours to stop',
    aTPU({ attached: true }),
    [],
    'connect environment terminal run job check chips browse upload download copy sync share tensorboard app tunnel detach',
    'connect'
  ],
  [
    'a pod, which Google does not stop',
    aTPU({ hosts: [host, { ...host, index: 1 }] }),
    [],
    'connect environment terminal run job check chips browse upload download copy sync share tensorboard app tunnel guard delete',
    'connect'
  ],
  [
    'a spot one, which Google does not stop',
    aTPU({ tier: 'spot' }),
    [],
    'connect environment terminal run job check chips browse upload download copy sync share tensorboard app tunnel guard delete',
    'connect'
  ]
])('can do with %s what its state allows', (_, tpu, running, all, main) => {
  const able = availableActions(tpu, running);
  expect(able.join(' ')).toBe(all);
  expect(primaryAction(able)).toBe(main);
});

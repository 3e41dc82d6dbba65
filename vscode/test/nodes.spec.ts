import { expect, it } from 'vitest';

import {
  aKernel,
  anOperation,
  aProblem,
  aTPU,
  aTunnel,
  connectedTPU
} from '../../labextension/src/__tests__/server';
import { Resources } from '../../labextension/src/model/resources';
import { IHunt, IOperation, ITPU } from '../../labextension/src/rest/api';
import { StoredIds } from '../../labextension/src/state/storedIds';
import { nameOf, remedyNodes, rootNodes, summary } from '../src/nodes';
import { State } from '../src/session';

function resourcesOf(tpus: ITPU[], operations: IOperation[] = []): Resources {
  const resources = new Resources(new StoredIds());
  resources.replaceAll(tpus, operations);
  return resources;
}

const UUID = '0d1c2b3a-1111-2222-3333-444455556666';

it('offers what is possible now, and nothing of a kind of its own for a TPU', () => {
  const resources = resourcesOf([connectedTPU()]);
  resources.allTunnels.set('t1', aTunnel());
  const [tpu] = rootNodes(resources, null);
  expect(tpu.context).toContain(';stop;');
  expect(tpu.context).not.toContain(';connect;');
  // Menus of tunnels are for those, although a TPU can get one.
  expect(tpu.context).toContain(';tunnel;');
  expect(tpu.context).not.toContain(';is-tunnel;');
  expect(tpu.children?.map(node => node.context)).toContain(';is-tunnel;');
  const [stopped] = rootNodes(resourcesOf([aTPU({ state: 'STOPPED' })]), null);
  expect(stopped.context).toContain(';start;');
  expect(stopped.description).toContain('Stopped');
});

it('shows a hunt with its attempts, the newest first, before there is a TPU', () => {
  const operation = anOperation({ id: 'h1', kind: 'hunt', tpu: 'wanted' });
  const resources = resourcesOf([], [{ ...operation, cancellable: true }]);
  const attempt = {
    zone: 'us-west4-a',
    type: 'v5litepod-8',
    tier: 'spot' as const,
    started: '',
    ended: '',
    unattended: false
  };
  const problem = aProblem(
    'There is no capacity.',
    'NO_CAPACITY',
    'Try another zone.'
  );
  resources.hunts.set('h1', {
    id: 'h1',
    name: 'wanted',
    state: 'running',
    message: 'Waiting for capacity',
    attempts: [
      { ...attempt, number: 1, state: 'failed', problem },
      { ...attempt, number: 2, state: 'trying', problem: null }
    ]
  } as unknown as IHunt);
  const [hunt] = rootNodes(resources, null);
  expect(hunt.label).toBe('Hunting for wanted');
  expect(hunt.description).toBe('Waiting for capacity');
  expect(hunt.context).toContain(';cancellable;');
  expect(hunt.children?.map(one => [one.label, one.description])).toEqual([
    ['2. v5litepod-8 · Spot · us-west4-a', 'trying'],
    ['1. v5litepod-8 · Spot · us-west4-a', 'There is no capacity.']
  ]);
  expect(summary(resources)).toEqual({
    text: '0 TPUs, hunting',
    tone: 'moving'
  });
});

it('shows what runs or has failed, not what the user has cancelled', () => {
  const states = ['running', 'failed', 'cancelled', 'done'] as const;
  const operations = states.map(state =>
    anOperation({ id: state, kind: 'hunt', tpu: state, state })
  );
  const nodes = rootNodes(resourcesOf([], operations), null);
  expect(nodes.map(node => node.operation?.state).sort()).toEqual([
    'failed',
    'running'
  ]);
});

it('names a kernel by its notebook, without what the Jupyter extension adds', () => {
  for (const added of [`-${UUID}`, `-jvsc-${UUID}${UUID}`]) {
    const kernel = aKernel({ notebook: `train-set${added}.ipynb` });
    expect(nameOf(kernel)).toBe('train-set.ipynb');
  }
  expect(nameOf(aKernel({ notebook: `a/${UUID}.ipynb` }))).toBe(
    `${UUID}.ipynb`
  );
});

it('offers what helps where there is no server, and nothing where there is one', () => {
  const commands = (state: State) =>
    remedyNodes(state).map(node => node.command);
  expect(commands('missing')).toEqual(['install', 'choosePython']);
  expect(commands('broken')).toEqual(['choosePython']);
  expect(commands('failed')).toContain('refresh');
  expect(commands('stopped')).toEqual([]); // the welcome page starts one
  expect(commands('running')).toEqual([]);
});

it('says in the row of a TPU when it stops itself, and how many kernels it has', () => {
  const tpu = connectedTPU({
    kernels: 2,
    guard: { ends: '', phase: 'watching', busy: [] } as never
  });
  const [row] = rootNodes(resourcesOf([tpu]), null);
  expect(row.description).toContain(' · No limit is near · 2 kernels');
});

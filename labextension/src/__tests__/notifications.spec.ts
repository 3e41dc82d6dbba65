import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { afterEach, expect, it } from 'vitest';

import { IOpenNotebooks } from '../kernels/lostKernels';
import { runAbove } from '../kernels/runAbove';
import { addNotifications } from '../operations/notifications';
import { Reason } from '../rest/api';
import { StoredIds } from '../state/storedIds';
import { actionsOf, notified } from './opened';
import {
  aKernel,
  aProblem,
  aQueuedResource,
  aTPU,
  connectedTPU,
  listOf,
  openModel
} from './server';

const OPEN = ['/home/me/one.ipynb', '/home/me/two.ipynb'];

const ran: string[] = [];
const NOTEBOOKS: IOpenNotebooks = {
  isOpen: path => OPEN.includes(path),
  runAbove: async path => {
    ran.push(path);
  }
};

afterEach(() => {
  ran.length = 0;
});

async function openNotifications() {
  const { model, changes } = await openModel();
  const actions = actionsOf(model);
  actions.view.visible = true;
  addNotifications(actions, () => true, NOTEBOOKS);
  const lose = (
    id: string,
    notebook: string,
    message: string,
    reason: Reason
  ) => {
    const hint = 'Do this.';
    const problem = aProblem(message, reason, hint);
    changes.kernel({
      ...aKernel({ id, notebook, state: 'dead' }),
      problem
    });
  };
  return { changes, lose };
}

it('says once why notebooks lost their kernels', async () => {
  const { lose } = await openNotifications();
  lose('1', OPEN[0], 'It was stopped.', 'CANCELLED');
  lose('2', OPEN[1], 'It was stopped.', 'CANCELLED');
  lose('2', OPEN[1], 'It was stopped.', 'CANCELLED');
  expect(notified()).toEqual([
    'warning: one.ipynb, two.ipynb: It was stopped. Do this.'
  ]);
  Notification.dismiss();
  lose('3', OPEN[1], 'It was stopped.', 'CANCELLED'); // it happens again
  expect(notified()).toEqual(['warning: two.ipynb: It was stopped. Do this.']);
});

it('says that a kernel died where nobody shows its notebook, but not that it was shut down', async () => {
  const { lose } = await openNotifications();
  lose('1', '/home/me/closed.ipynb', 'It was stopped.', 'CANCELLED');
  lose('2', '/home/me/closed.ipynb', 'It was preempted.', 'CONFLICT');
  expect(notified()).toEqual([
    'error: closed.ipynb: It was preempted. Do this.'
  ]);
});

it('offers to run notebooks again when their TPU is connected again', async () => {
  const { changes, lose } = await openNotifications();
  const buttons = () =>
    Notification.manager.notifications[0].options.actions!.map(
      action => action.label
    );
  changes.tpu(aTPU());
  lose('1', OPEN[0], 'Its host was restarted.', 'NOT_FOUND');
  lose('2', OPEN[1], 'Its host was restarted.', 'NOT_FOUND');
  lose('3', '/home/me/closed.ipynb', 'Its host was restarted.', 'NOT_FOUND');
  expect(buttons()).toEqual(['Show TPU']);
  changes.tpu(connectedTPU({ zone: 'us-west4-a' })); // hunted for again
  changes.tpu(connectedTPU({ zone: 'us-west4-a', kernels: 1 }));
  expect(notified()).toEqual([
    'error: one.ipynb, two.ipynb, closed.ipynb: Its host was restarted. ' +
      'Do this. my-tpu is connected again.'
  ]);
  expect(buttons()).toEqual(['Run Above', 'Show TPU']);
  const [{ options }] = Notification.manager.notifications;
  await options.actions![0].callback(new MouseEvent('click'));
  await expect.poll(() => ran).toEqual(OPEN);
});

it.each([
  ['dead', true, ['notebook:restart-kernel', 'notebook:run-all-above']],
  ['dead', false, ['notebook:restart-kernel']],
  ['idle', true, ['notebook:run-all-above']]
] as const)(
  'runs a notebook again whose kernel is %s, if a new kernel is agreed to: %s',
  async (status, agreed, expected) => {
    const done: string[] = [];
    const widget = Object.assign(new Widget(), {
      sessionContext: {
        path: 'one.ipynb',
        session: { kernel: { status, connectionStatus: 'connected' } }
      }
    });
    const shell = {
      widgets: () => [widget],
      activateById: (id: string) => expect(id).toBe(widget.id)
    };
    const commands = {
      execute: async (id: string) => {
        done.push(id);
        return agreed;
      }
    };
    const app = { shell, commands } as unknown as JupyterFrontEnd;
    await runAbove(app, '/home/me/closed.ipynb');
    expect(done).toEqual([]);
    await runAbove(app, OPEN[0]);
    expect(done).toEqual(expected);
    widget.dispose();
  }
);

it('says once which maintenance was announced', async () => {
  const { model, changes } = await openModel();
  const actions = actionsOf(model);
  const announced = new StoredIds();
  const open = () =>
    addNotifications(actions, () => true, NOTEBOOKS, announced);
  open();
  const maintenance = {
    ongoing: false,
    scheduled: true,
    start: '2026-12-01T10:00:00Z',
    end: '2026-12-01T11:00:00Z',
    can_reschedule: true
  };
  changes.tpu(aTPU({ maintenance }));
  changes.tpu(aTPU({ maintenance, kernels: 1 }));
  open(); // another page of this browser
  changes.tpu(aTPU({ maintenance, kernels: 2 }));
  expect(notified()).toHaveLength(1);
  expect(notified()[0]).toMatch(
    /^warning: Maintenance of my-tpu is scheduled: Dec 1, /
  );
  changes.tpu(aTPU({ maintenance: { ...maintenance, ongoing: true } }));
  expect(notified()).toHaveLength(2);
  const noticed = '2026-12-01T10:00:00Z';
  const interruption = {
    kind: 'preemption' as const,
    hosts: [0],
    noticed,
    checkpoints: []
  };
  changes.tpu(aTPU({ maintenance, interruption }));
  changes.tpu(aTPU({ interruption: { ...interruption, hosts: [0, 1] } }));
  expect(notified().slice(0, 1)).toEqual([
    'warning: Google is about to preempt my-tpu. ' +
      'This ends everything that runs there. Save your results now.'
  ]);
  const run = { host: 0, what: 'save()', notebook: '/home/me/a.ipynb' };
  for (const state of ['running', 'done', 'done'] as const) {
    const checkpoints = [{ ...run, state, seconds: 3, error: '' }];
    changes.tpu(aTPU({ interruption: { ...interruption, checkpoints } }));
  }
  expect(notified()).toHaveLength(3);
  expect(notified()[0]).toBe(
    'warning: Google is about to preempt my-tpu. ' +
      'a.ipynb: save() finished after 3 s.'
  );
});

it('says once that a TPU seems to be forgotten, also when the page is loaded again', async () => {
  const tpu = aTPU({ forgotten: true, advice: 'It is billed.' });
  const tpus = [tpu, aTPU({ name: 'used', id: '2' })];
  const announced = new StoredIds(localStorage, 'test-forgotten');
  for (const texts of [
    [
      'warning: my-tpu has been ready for hours, and is not connected here. It is billed.'
    ],
    []
  ]) {
    const { model } = await openModel(listOf(...tpus));
    const actions = actionsOf(model);
    actions.view.visible = true;
    addNotifications(actions, () => true, NOTEBOOKS, announced);
    await model.refresh();
    expect(notified()).toEqual(texts);
    Notification.dismiss();
  }
});

it('says once that a queued resource uses quota for nothing', async () => {
  const { model, changes } = await openModel();
  addNotifications(
    actionsOf(model),
    () => true,
    NOTEBOOKS,
    new StoredIds(localStorage, 'test-queued')
  );
  const old = aQueuedResource({ name: 'old', state: 'SUSPENDED' });
  changes.queued(old);
  expect(notified()).toEqual([]);
  changes.queued({ ...old, forgotten: true });
  changes.queued({ ...old, forgotten: true, has_tpus: true });
  expect(notified()).toEqual([
    'warning: Queued resource old: Suspended. It uses quota until you delete it.'
  ]);
});

it('says one event in one notification, which changes with it and offers what comes next', async () => {
  const { changes, lose } = await openNotifications();
  const preempted = aTPU({
    state: 'PREEMPTED',
    problem: aProblem('my-tpu was preempted.', 'CONFLICT', 'Do this.')
  });
  const noticed = '2026-12-01T10:00:00Z';
  const interruption = {
    kind: 'preemption' as const,
    hosts: [0],
    noticed,
    checkpoints: []
  };
  changes.tpu(aTPU({ interruption }));
  expect(notified()).toHaveLength(1);
  const [{ id }] = Notification.manager.notifications;
  lose('1', OPEN[0], 'Its host is gone.', 'CONFLICT'); // its link notices it first
  changes.tpu(preempted);
  lose('2', OPEN[1], 'It was preempted.', 'CONFLICT');
  expect(notified()).toEqual([
    'error: my-tpu was preempted. Do this. Lost kernels: one.ipynb, two.ipynb.'
  ]);
  const [shown] = Notification.manager.notifications;
  expect(shown.id).toBe(id);
  expect(shown.options.actions!.map(({ label }) => label)).toEqual([
    'Create Again…',
    'Hunt for Another…',
    'Show TPU'
  ]);
  // It is there again: what was lost with it can run.
  Notification.dismiss();
  changes.tpu(connectedTPU({ zone: 'us-west4-a', id: '9' }));
  expect(notified().sort()).toEqual([
    'error: one.ipynb: Its host is gone. Do this. my-tpu is connected again.',
    'error: two.ipynb: It was preempted. Do this. my-tpu is connected again.'
  ]);
});

it('says once that Google preempted a TPU', async () => {
  const { model, changes } = await openModel();
  addNotifications(actionsOf(model), () => true, NOTEBOOKS);
  const problem = aProblem(
    'my-tpu was preempted.',
    'CONFLICT',
    'Delete it and create another one.'
  );
  changes.tpu(aTPU());
  expect(notified()).toEqual([]);
  changes.tpu(aTPU({ state: 'PREEMPTED', problem }));
  changes.tpu(aTPU({ state: 'PREEMPTED', problem, labels: { a: 'b' } }));
  expect(notified()).toEqual([
    'error: my-tpu was preempted. Delete it and create another one.'
  ]);
  // Many of them are one notification, which does not cover the page.
  for (const name of ['b', 'c', 'd']) {
    changes.tpu(aTPU({ name, id: name, state: 'PREEMPTED', problem }));
  }
  expect(notified()).toEqual([
    'error: Google has ended 4 TPUs: my-tpu, b, c, d. Delete them and create others.'
  ]);
});

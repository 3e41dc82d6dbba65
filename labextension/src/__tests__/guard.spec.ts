import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';
import { BoxPanel, Widget } from '@lumino/widgets';
import { expect, it, vi } from 'vitest';

import { endLabel } from '../guard/guardLabels';
import { addGuardNotices } from '../guard/guardNotices';
import { addInterruptionNotices } from '../kernels/interruptionNotices';
import { IGuard, ITPU } from '../rest/api';
import {
  answerDialog,
  button,
  choose,
  dialogInputs,
  dialogSelects,
  notified,
  openAction,
  openPage,
  openPanel,
  shows,
  type,
  widgets
} from './opened';
import { aProblem, aTPU, connectedTPU, listOf, someHosts } from './server';

const PATH = 'tpus/us-central1-a~my-tpu/guard';
const KEEP = `POST ${PATH}/keep`;

function aGuard(more: Partial<IGuard> = {}): IGuard {
  return {
    action: 'stop',
    idle: 7200,
    max_cost: null,
    until: '',
    notice: 300,
    phase: 'watching',
    reason: 'idle',
    ends: '2099-01-01T12:00:00Z',
    busy: [],
    actor: 'host',
    google_deletes: '',
    google_problem: null,
    no_restart: '',
    problem: null,
    ...more
  };
}

it('says when a TPU stops itself, and keeps it for an hour', async () => {
  const { node, server } = await openPage(aTPU({ guard: aGuard() }), {
    [KEEP]: [200, aGuard()]
  });
  await shows(node, 'Stops at', ': idle');
  button(node, 'Keep it for an hour').click();
  await server.counts(KEEP);
});

it('says in its row, in few words, when a TPU stops or deletes itself', async () => {
  const now = Date.parse('2026-01-01T12:00:00Z');
  const said = (guard: Partial<IGuard> | null, run_ends = '') =>
    endLabel({ guard: guard && aGuard(guard), run_ends }, now);
  expect(said({ ends: '2026-01-01T15:00:00Z' })).toBe('stops in 3 h');
  expect(said({ ends: '2026-01-01T13:30:00Z' })).toBe('stops in 1.5 h');
  const soon = { action: 'delete', ends: '2026-01-01T12:05:00Z' } as const;
  expect(said(soon)).toBe('deletes in 5 min');
  expect(said({ ...soon, phase: 'ending' })).toBe('deletes now');
  // Busy, or before the first report: only the limit is known.
  expect(said({ ends: '' })).toBe('stops when idle 2 h');
  expect(said({ ends: '', idle: null, max_cost: 20 })).toBe('stops at $20.00');
  expect(said(null, '2026-01-04T12:00:00Z')).toBe('deletes in 3 d');
  expect(said(null)).toBe('');

  const guard = aGuard({ ends: '', busy: ['a job'] });
  const { node } = await openPanel(listOf(aTPU({ guard })));
  const row = node.querySelector('.jp-tpu-TPU-states')!;
  await expect.poll(() => row.textContent).toContain('stops when idle 2 h');
  expect(row.querySelector('[title="Busy with a job"]')).toBeTruthy();
});

it('says what a TPU waits for, and why it can’t stop itself', async () => {
  const problem = aProblem(
    'The account has no permission.',
    'PERMISSION',
    'Grant it.'
  );
  const guard = aGuard({ ends: '', reason: '', busy: ['a job'], problem });
  const { node } = await openPage(aTPU({ guard }));
  await shows(node, 'Busy with a job', 'no permission. Grant it.');
  expect(node.textContent).not.toContain('Keep it');
});

it('sets the limits that are typed, beginning with those that its host has', async () => {
  const before = aGuard({ idle: 5400, max_cost: 7, notice: 600, ends: '' });
  const { done, server } = await openAction('guard', aTPU(), {
    [`GET ${PATH}`]: [200, before],
    [`POST ${PATH}`]: [200, { ...before, idle: 3600 }]
  });
  // The third one offers to save variables.
  const [cost, until] = await dialogInputs(3);
  const [idle, action] = dialogSelects();
  expect([idle.selectedOptions[0].text, cost.value, until.value]).toEqual([
    'Stop it after 90 minutes',
    '7',
    ''
  ]);
  expect(action.value).toBe('stop');
  choose(idle, '3600');
  choose(action, 'delete');
  type(cost, '');
  type(until, '2099-12-24T08:00');
  await answerDialog('Save');
  await done;
  expect(server.posts).toEqual([
    {
      action: 'delete',
      idle: 3600,
      max_cost: null,
      until: new Date(2099, 11, 24, 8).toISOString(),
      notice: 600
    }
  ]);
  expect(notified()).toEqual(['success: my-tpu: No limit is near.']);
});

it('removes the guard of another person’s pod, which can only be deleted, by its name', async () => {
  const pod = aTPU({
    hosts: someHosts(2),
    guard: aGuard(),
    owner: 'bob',
    not_yours: true
  });
  const { node, server } = await openPage(pod, {
    [`GET ${PATH}`]: [200, aGuard({ action: 'delete' })],
    [`DELETE ${PATH}`]: [204, null]
  });
  await shows(node, 'Change…');
  button(node, 'Delete my-tpu automatically…').click();
  await dialogInputs(3);
  const [idle, action] = dialogSelects();
  expect([action.value, action.disabled]).toEqual(['delete', true]);
  choose(idle, '');
  expect(await answerDialog('Save')).toMatch(
    /^When should my-tpu delete itself?.* it is deleted even while/
  );
  const [name] = await dialogInputs(1);
  type(name, 'my-tpu');
  expect(await answerDialog('Save')).toContain('my-tpu belongs to bob.');
  await server.receives(`DELETE ${PATH}`, { confirm_name: 'my-tpu' });
  await expect
    .poll(notified)
    .toEqual(['success: my-tpu runs until you delete it.']);
});

it('warns in the notebooks of the TPU, and in no other', async () => {
  const tpu = connectedTPU({
    guard: aGuard({ ends: soon(1) })
  });
  const { actions, changes, server } = await openPanel({
    ...listOf(tpu),
    [KEEP]: [200, aGuard()]
  });
  const { kernelspec } = tpu.environments[0];
  const shell = shellOf(tpu, `another-${kernelspec}`);
  addGuardNotices(actions, shell.shell);
  const [notebook, other] = shell.documents;
  expect(notebook.node.textContent).toContain('my-tpu: Stops at');
  expect(other.node.textContent).toBe('');
  // One that is opened later has it, too.
  shell.documents.push(new Document(`${kernelspec}-chip0`));
  shell.currentChanged.emit(undefined);
  expect(shell.documents[2].node.textContent).toBe(notebook.node.textContent);
  button(notebook.node, 'Keep It for an Hour').click();
  await server.counts(KEEP);
  changes.tpu({ ...tpu, guard: aGuard() });
  expect(notebook.node.textContent).toBe('');
});

it('warns before the time of a flex-start TPU is over, which nobody can put off', async () => {
  const tpu = connectedTPU({
    tier: 'flex-start',
    run_for: 7200,
    run_ends: soon(100)
  });
  const { actions, changes, node } = await openPage(tpu);
  await shows(node, 'Flex-start', '2 hours, until about');
  const shell = shellOf(tpu, 'other');
  vi.useFakeTimers({ now: Date.now() });
  addGuardNotices(actions, shell.shell);
  const [notebook, other] = shell.documents;
  vi.advanceTimersByTime(84 * 60_000);
  expect(notebook.node.textContent).toBe('');
  vi.advanceTimersByTime(2 * 60_000);
  expect(notebook.node.textContent).toContain(
    'Google then deletes it with its disk. Save your results.Show TPU'
  );
  expect(other.node.textContent).toBe('');
  const labels = () =>
    Notification.manager.notifications.map(one =>
      one.options.actions!.map(action => action.label)
    );
  expect(labels()).toEqual([['Show TPU']]);
  // A guard that ends it before can be put off: a notebook then shows that.
  changes.tpu({ ...tpu, guard: aGuard({ ends: soon(3) }) });
  expect(labels()).toHaveLength(2);
  expect(notebook.node.textContent).toContain('Keep It for an Hour');
  changes.tpu({ ...tpu, run_ends: '' });
  expect(notified()).toEqual([]);
});

it('says in the notebooks of a TPU that Google preempts it', async () => {
  const tpu = connectedTPU();
  const { actions, changes } = await openPanel(listOf(tpu));
  const shell = shellOf(tpu, 'other');
  addInterruptionNotices(actions, shell.shell);
  const interruption = {
    kind: 'preemption' as const,
    hosts: [0],
    noticed: '2026-12-01T10:00:00Z',
    checkpoints: []
  };
  changes.tpu({ ...tpu, interruption });
  const [notebook, other] = shell.documents;
  expect(notebook.node.textContent).toContain('about to preempt my-tpu.');
  expect(other.node.textContent).toBe('');
  changes.tpu({ ...tpu, interruption: null });
  expect(notebook.node.textContent).toBe('');
});

/** The time in so many minutes. */
function soon(minutes: number): string {
  return new Date(Date.now() + minutes * 60_000).toISOString();
}

/** With a notebook of the TPU, and another one. */
function shellOf(tpu: ITPU, other: string): TestShell {
  const { kernelspec } = tpu.environments[0];
  return new TestShell(new Document(kernelspec), new Document(other));
}

/** A notebook, or a console. */
class Document extends Widget {
  constructor(name: string) {
    super();
    this.sessionContext = { path: '', session: { kernel: { name } } };
    this.node.append(this.contentHeader.node);
    widgets.push(this, this.contentHeader);
    Widget.attach(this, document.body);
  }

  readonly contentHeader = new BoxPanel();
  readonly sessionContext: object;
}

class TestShell {
  constructor(...documents: Document[]) {
    this.documents = documents;
  }

  get shell(): JupyterFrontEnd.IShell {
    return this as unknown as JupyterFrontEnd.IShell;
  }

  widgets(): Widget[] {
    return this.documents;
  }

  readonly documents: Document[];
  readonly currentChanged = new Signal<this, undefined>(this);
}

it('warns once before a TPU stops, and takes that back when it is kept', async () => {
  const tpu = aTPU({ guard: aGuard({ ends: soon(30) }) });
  const { actions, changes, server } = await openPanel({
    ...listOf(tpu),
    [KEEP]: [200, aGuard()]
  });
  vi.useFakeTimers({ now: Date.now() });
  addGuardNotices(actions, new TestShell().shell);
  vi.advanceTimersByTime(24 * 60_000);
  expect(notified()).toEqual([]);
  vi.advanceTimersByTime(2 * 60_000);
  const [warning] = Notification.manager.notifications;
  expect(warning.message).toContain('my-tpu: Stops at');
  const [keep] = warning.options.actions!;
  expect(keep.label).toBe('Keep It for an Hour');
  keep.callback(new MouseEvent('click'));
  changes.tpu({ ...tpu, guard: aGuard({ ends: soon(60) }) });
  expect(notified()).toEqual([]);
  vi.useRealTimers();
  await server.counts(KEEP);
});

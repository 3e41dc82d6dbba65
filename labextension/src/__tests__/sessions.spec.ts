// Saved variables: where they are listed, what is asked before they are saved, restored, deleted or lost,
// and what a notebook offers.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { BoxPanel, Widget } from '@lumino/widgets';
import { expect, it, vi } from 'vitest';

import { ISession, ISessionOutcome } from '../rest/api';
import { addToNotebooks } from '../sessions/notebooks';
import { placeProblem } from '../sessions/sessionForm';
import { missingLabel, restoredText } from '../sessions/sessionLabels';
import { NO_ARGUMENTS } from '../ui/described';
import {
  actionsOf,
  answerDialog,
  button,
  choose,
  dialogInputs,
  dialogSelects,
  field,
  openAction,
  openPage,
  openPanel,
  press,
  shows,
  type,
  widgets
} from './opened';
import {
  aKernel,
  aLoss,
  anOperation,
  aProblem,
  aSession,
  aTPU,
  connectedTPU,
  listOf,
  openModel
} from './server';

const TPU = 'tpus/us-central1-a~my-tpu';
const LIST = `GET ${TPU}/sessions`;
const SAVE = `POST ${TPU}/sessions`;
const SETTING = `POST ${TPU}/sessions/setting`;
const BUCKET = 'gs://my-bucket/sessions';

const setting = {
  automatic: true,
  place: BUCKET,
  max_gb: 2,
  seconds: 5,
  keep_days: 30
};

function listed(...sessions: ISession[]) {
  return { [LIST]: [200, { setting, sessions, problems: [] }] as const };
}

function anOutcome(more: Partial<ISessionOutcome> = {}): ISessionOutcome {
  return {
    kernel: '1',
    notebook: '/home/me/train.ipynb',
    host: 0,
    state: 'saved',
    session: 's1',
    name: 'train',
    place: BUCKET,
    variables: 41,
    size: 1_200_000_000,
    new: 3_000_000,
    missing: [{ name: 'loader', why: 'a generator' }],
    missing_count: 1,
    notes: [],
    problem: null,
    ...more
  };
}

it('lists what is saved, where, and what was not kept', async () => {
  const { changes, node } = await openPage(
    connectedTPU({ sessions: setting }),
    listed(
      aSession({
        missing: [{ name: 'loader', why: 'a generator' }],
        missing_count: 1
      })
    ) as never
  );
  await shows(
    node,
    'Saved when no cell has run for 5 s',
    `In ${BUCKET}.`,
    '41 variables · 1.2 GB · my-tpu (v5litepod-8)'
  );
  button(node, 'Variables of train that were not kept').click();
  await shows(node, 'loader', 'a generator');
  // What is saved anew takes its place; what is deleted goes.
  changes.session(aSession({ variables: 42 }));
  await shows(node, '42 variables');
  changes.gone('session', 's1');
  await expect.poll(() => node.textContent).not.toContain('42 variables');
});

it('says why a list may be old, and why a session can’t be restored', async () => {
  const problem = aProblem('It is damaged.', 'CONFLICT', 'Forget it.');
  const { node } = await openPage(connectedTPU(), {
    [LIST]: [
      200,
      {
        setting: null,
        sessions: [aSession({ problem })],
        problems: [aProblem('my-tpu does not answer.', 'UNREACHABLE', '')]
      }
    ]
  });
  await shows(
    node,
    'Variables are only saved when you ask for it.',
    'my-tpu does not answer.',
    'can’t be restored',
    'It is damaged. Forget it.'
  );
  expect(button(node, 'Restore train into a kernel…').disabled).toBe(true);
});

it('saves now, restores into a chosen kernel, and forgets after a question', async () => {
  const RESTORE = `${SAVE}/s1/restore`;
  const FORGET = `DELETE ${TPU}/sessions/s1`;
  const kernels = [aKernel({ id: '1' }), aKernel({ id: '2', state: 'dead' })];
  const { node, server } = await openPage(connectedTPU(), {
    ...listed(aSession()),
    [`GET ${TPU}/kernels`]: [200, kernels],
    [SAVE]: [202, anOperation({ kind: 'save' })],
    [RESTORE]: [202, anOperation({ id: 'r', kind: 'restore' })],
    [FORGET]: [204, null]
  } as never);
  await press(node, 'Save the variables of all kernels now');
  await server.receives(SAVE, {});
  await press(node, 'Restore train into a kernel…');
  const [overwrite] = await dialogInputs(1);
  const [kernel] = dialogSelects();
  expect([...kernel.options].map(({ value }) => value)).toEqual(['1']);
  overwrite.click();
  await answerDialog('Restore');
  await server.receives(RESTORE, { kernel: '1', overwrite: true });
  await press(node, 'Forget train…');
  expect(await answerDialog('Forget')).toContain(
    `are deleted from: ${BUCKET}. This can’t be undone.`
  );
  await server.counts(FORGET);
});

it('chooses where variables are saved; what is no bucket is refused', async () => {
  const far = 'The bucket is in eu, and the TPU in us-central1.';
  const buckets = [
    { name: 'my-bucket', location: 'us-central1', near: true, warning: '' },
    { name: 'far', location: 'eu', near: false, warning: far }
  ];
  const { node, server } = await openPage(connectedTPU(), {
    ...listed(),
    'GET zones/us-central1-a/buckets': [
      200,
      { region: 'us-central1', buckets, problem: null }
    ],
    [SETTING]: [200, setting]
  } as never);
  await press(node, 'When variables are saved, and where…');
  const [, , , ...first] = await dialogInputs(5);
  expect(first.map(({ value }) => value)).toEqual(['5', '30']);
  const [where] = dialogSelects();
  choose(where, 'computer');
  const [, , , most] = await dialogInputs(6);
  expect(most.value).toBe('2');
  choose(where, 'gs://');
  await shows(document.body, 'Bucket and folder');
  const [, , , place, , days] = await dialogInputs(6);
  expect(place.value).toBe('');
  const offered = () => [...(place.list?.options ?? [])];
  await expect
    .poll(() => offered().map(({ value }) => value))
    .toEqual([BUCKET, 'gs://far/sessions']);
  type(place, 'gs://far/sessions');
  await shows(document.body, far);
  type(place, 'https://my-bucket');
  button(document.body.querySelector('.jp-Dialog')!, 'Save').click();
  await shows(document.body, 'Enter a bucket and a folder');
  expect(server.count(SETTING)).toBe(0);
  type(place, ` ${BUCKET} `);
  type(days, '7');
  await answerDialog('Save');
  await server.receives(SETTING, { ...setting, keep_days: 7 });
});

it('knows the places that the server accepts', () => {
  const bad = ['gs://', 'gs://B/x', 'gs://bucket/../x', 'bucket', `${BUCKET}/`];
  const good = [BUCKET, 'gs://bucket', 'computer', ''];
  expect(good.filter(placeProblem)).toEqual([]);
  expect(bad.filter(one => !placeProblem(one))).toEqual([]);
});

it('is opened from the menu, where its page shows it', async () => {
  const { done, node } = await openAction('sessions', connectedTPU(), {
    ...listed()
  } as never);
  await done;
  await shows(node, 'Variables that outlive their kernel');
});

it('asks before an end whether variables are saved, and says where', async () => {
  const kernels = [aKernel()];
  const DELETE = `DELETE ${TPU}`;
  const text = `Before that, their variables are saved in ${BUCKET}.`;
  const loss = aLoss({
    kernels,
    kernels_text: 'This shuts down 1 kernel.',
    saves: true,
    sessions_text: text
  });
  const { done, server } = await openAction('delete', connectedTPU(), {
    [`GET ${TPU}/consequences`]: loss,
    [DELETE]: [202, anOperation({ kind: 'delete' })]
  });
  await shows(document.body, text);
  const [choice] = dialogSelects();
  expect([...choice.options].map(({ value }) => value)).toEqual([
    'save',
    'require',
    'skip'
  ]);
  choose(choice, 'require');
  await answerDialog('Delete');
  await done;
  const ends = { end_jobs: false, end_kernels: true, sessions: 'require' };
  expect(server.bodies(DELETE)).toEqual([ends]);
});

it('offers to save on the disk before a stop, where nothing was chosen', async () => {
  const loss = aLoss({ kernels: [aKernel()], kernels_text: 'Ends 1 kernel.' });
  const { done, server } = await openAction('stop', connectedTPU(), {
    [`GET ${TPU}/consequences`]: loss,
    [`POST ${TPU}/stop`]: [202, anOperation({ kind: 'stop' })]
  });
  await shows(document.body, 'Save on its disk first');
  const [choice] = dialogSelects();
  expect(choice.value).toBe('skip');
  await answerDialog('Stop');
  await done;
  expect(server.posts).toEqual([{ end_jobs: false, end_kernels: true }]);
});

it('offers it for a new Spot TPU, which needs a bucket, and not on demand', async () => {
  const CREATE = 'POST tpus';
  const { actions, node, server } = await openPanel({
    'POST quote': [200, null],
    [CREATE]: [202, anOperation({ kind: 'create' })]
  });
  await actions.openCreateForm();
  await shows(node, 'Tier');
  const label = 'Save the variables of notebooks';
  expect(node.textContent).not.toContain(label);
  const { create } = actions.forms;
  create.set('tier', 'spot');
  await shows(node, label);
  create.set('sessions', true);
  await shows(node, 'Bucket and folder');
  expect(await create.check()).toBeNull();
  await shows(node, 'Choose a bucket or this computer: the disk of the TPU is');
  type(field(node, 'Bucket and folder'), BUCKET);
  expect(await create.check()).toBe(true);
  expect(create.request.sessions).toEqual({ place: BUCKET });
  create.set('tier', 'on-demand');
  expect(create.request.sessions).toBeUndefined();
  expect(server.count(CREATE)).toBe(0);
});

it('says in one line what was restored, and what is missing', () => {
  const session = aSession({ saved: new Date().toISOString() });
  expect(
    restoredText(anOutcome({ notes: ['The mesh is smaller.'] }), session)
  ).toMatch(
    /^Restored 41 of 42 variables, saved .*, from my-tpu \(v5litepod-8\)\. Not there: loader \(a generator\)\. The mesh is smaller\.$/
  );
  const many = Array.from({ length: 9 }, (_, index) => ({
    name: `v${index}`,
    why: 'a lock'
  }));
  expect(missingLabel(many, 300)).toContain('v4 (a lock) and 295 more');
});

/** A notebook, as far as sessions need one. */
class TestNotebook extends Widget {
  readonly contentHeader = new BoxPanel();
  readonly content = {
    activeCellIndex: 0,
    widgets: [{ model: { id: 'first' } }, { model: { id: 'second' } }]
  };
  readonly changeKernel = vi.fn(async ({ name }: { name: string }) => {
    this.sessionContext.session.kernel = { id: 'new', name, status: 'idle' };
    return this.sessionContext.session.kernel;
  });
  readonly sessionContext = {
    path: 'train.ipynb',
    changeKernel: (model: { name: string }) => this.changeKernel(model),
    session: {
      kernel: { id: '1', name: 'tpu-my-tpu', status: 'idle' } as {
        id: string;
        name: string;
        status: string;
      } | null
    }
  };

  get line(): string {
    return this.contentHeader.node.textContent ?? '';
  }
}

/** A notebook in JupyterLab, whose kernel runs on my-tpu, and another TPU. */
async function openNotebook(answers: object = {}, ...sessions: ISession[]) {
  const other = connectedTPU({ name: 'other', id: '2', type: 'v6e-8' });
  other.environments[0].kernelspec = 'tpu-other';
  const mine = connectedTPU();
  mine.environments[0].kernelspec = 'tpu-my-tpu';
  const opened = await openModel({
    ...listOf(mine, other),
    'GET sessions': [200, sessions],
    'GET tpus/us-central1-a~other/sessions': [
      200,
      { setting: null, sessions: [aSession()], problems: [] }
    ],
    ...answers
  } as never);
  const notebook = new TestNotebook();
  notebook.title.label = 'train.ipynb';
  widgets.push(notebook, notebook.contentHeader);
  const commands = new CommandRegistry();
  const ran: string[] = [];
  const id = 'notebook:run-cell';
  commands.addCommand(id, {
    describedBy: NO_ARGUMENTS,
    execute: () => void ran.push(id)
  });
  const shell = {
    activateById: () => undefined,
    currentChanged: new Signal<object, unknown>({}),
    currentWidget: notebook,
    widgets: () => [notebook]
  };
  const serverSettings = { baseUrl: `http://${Math.random()}/` };
  const app = { commands, shell, serviceManager: { serverSettings } };
  addToNotebooks(
    app as unknown as JupyterFrontEnd,
    actionsOf(opened.model, commands),
    null
  );
  return { ...opened, commands, notebook, ran };
}

it('continues on another TPU, after it has said what can’t be kept', async () => {
  const RESTORE = 'POST tpus/us-central1-a~other/sessions/s1/restore';
  const { changes, commands, notebook, server } = await openNotebook({
    [SAVE]: [202, anOperation({ id: 'o1', kind: 'save' })],
    [RESTORE]: [202, anOperation({ id: 'o2', kind: 'restore', tpu: 'other' })]
  });
  expect(commands.isVisible('tpu:continue-on')).toBe(true);
  const done = commands.execute('tpu:continue-on');
  const [place] = await dialogInputs(1);
  const [kernel] = dialogSelects();
  expect([...kernel.options].map(({ value }) => value)).toEqual(['tpu-other']);
  type(place, BUCKET);
  button(document.querySelector('.jp-Dialog')!, 'Save and Continue').click();
  await server.receives(SAVE, { kernels: ['1'], place: BUCKET });
  const ended = (id: string, kind: 'restore' | 'save', result: object) =>
    changes.operation(
      anOperation({ id, kind, state: 'done', result: result as never })
    );
  ended('o1', 'save', { kernels: [anOutcome()] });
  await shows(document.body, 'Continue on other without 1');
  expect(await answerDialog('Continue')).toMatch(/loader.*a generator/);
  await server.receives(RESTORE, { kernel: 'new', overwrite: false });
  expect(notebook.changeKernel).toHaveBeenCalledWith({ name: 'tpu-other' });
  ended('o2', 'restore', { kernels: [anOutcome({ state: 'restored' })] });
  await done;
  expect(notebook.line).toContain('Restored 41 of 42 variables, saved ');
  button(notebook.contentHeader.node, 'Dismiss').click();
  expect(notebook.line).toBe('');
});

it('keeps the kernel where somebody does not want to lose what can’t be kept', async () => {
  const result = { kernels: [anOutcome()] };
  const { commands, notebook } = await openNotebook({
    [SAVE]: [
      202,
      anOperation({ id: 'o1', kind: 'save', state: 'done', result })
    ]
  });
  const done = commands.execute('tpu:continue-on');
  type((await dialogInputs(1))[0], BUCKET);
  button(document.querySelector('.jp-Dialog')!, 'Save and Continue').click();
  await shows(document.body, 'without 1 variable?');
  await answerDialog('Cancel');
  await done;
  expect(notebook.changeKernel).not.toHaveBeenCalled();
});

it('offers to run an interrupted cell again from the last save', async () => {
  const RESTORE = `${SAVE}/s1/restore`;
  const result = { kernels: [anOutcome({ state: 'restored' })] };
  const done = anOperation({ kind: 'restore', state: 'done', result } as never);
  const interrupted = {
    cell: 'second',
    kernel: '1',
    ended: '2026-11-29T14:05:00Z',
    why: 'Its host was restarted.'
  };
  const { changes, notebook, ran, server } = await openNotebook(
    { [RESTORE]: [202, done] },
    aSession()
  );
  await server.counts('GET sessions');
  expect(notebook.line).toBe(''); // its own kernel has it
  notebook.sessionContext.session.kernel = null;
  changes.session(aSession({ interrupted }));
  expect(notebook.line).toMatch(
    /^A cell was interrupted at .* Its host was restarted\. The variables of this notebook were saved at /
  );
  button(notebook.contentHeader.node, 'Run Again from the Last Save').click();
  await expect.poll(() => ran).toEqual(['notebook:run-cell']);
  expect(notebook.content.activeCellIndex).toBe(1);
  expect(server.bodies(RESTORE)).toEqual([{ kernel: 'new', overwrite: false }]);
  expect(notebook.line).toContain('Restored 41 of 42 variables');
});

it('offers another TPU where that of a session is gone, unless it was on its disk', async () => {
  const { changes, notebook, server } = await openNotebook();
  await server.counts('GET sessions');
  notebook.sessionContext.session.kernel = null;
  changes.session(aSession({ tpu: 'gone', place: '' }));
  expect(notebook.line).toBe('');
  changes.session(aSession({ tpu: 'gone' }));
  await expect.poll(() => notebook.line).toContain('Continue on…');
  button(notebook.contentHeader.node, 'Dismiss').click();
  expect(notebook.line).toBe('');
});

it('restarts a kernel with its variables after a question', async () => {
  const RESTART = `POST ${TPU}/kernels/1/restart`;
  const result = { kernels: [anOutcome({ state: 'restored' })] };
  const done = anOperation({ kind: 'restart', state: 'done', result } as never);
  const { commands, notebook, server } = await openNotebook({
    [RESTART]: [202, done]
  });
  const restarted = commands.execute('tpu:restart-with-variables');
  expect(await answerDialog('Restart')).toContain('open files, generators');
  await restarted;
  await server.receives(RESTART, {});
  expect(notebook.line).toContain(
    'Restored 41 of 42 variables. Not there: loader (a generator).'
  );
});

it('shows in the details of an operation what became of each kernel', async () => {
  const busy = anOutcome({
    kernel: '2',
    notebook: '/home/me/busy.ipynb',
    state: 'busy',
    missing: [],
    missing_count: 0,
    problem: aProblem('It was busy for 60 s.', 'CONFLICT', 'Interrupt it.')
  });
  const failed = anOperation({
    kind: 'save',
    state: 'failed',
    problem: aProblem('1 of 2 kernels.', 'CONFLICT', ''),
    result: { kernels: [anOutcome(), busy] } as never
  });
  const { node } = await openPanel({
    ...listOf(aTPU()),
    'GET operations': [200, [failed]]
  });
  await shows(node, 'Not all variables of kernels on my-tpu were saved');
  button(node, 'Show details').click();
  await shows(
    node,
    `train.ipynb: saved 41 variables (1.2 GB, of which 3.0 MB was new) in ${BUCKET}`,
    'busy.ipynb: It was busy for 60 s. Interrupt it.',
    'loader'
  );
});

it('shows the home folders that are kept, how far a copy is, and why it failed', async () => {
  const SAVE_HOME = `POST ${TPU}/home/save`;
  const home = {
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    setting: { place: BUCKET, folders: ['runs'], max_gb: 10, seconds: 60 },
    there: true,
    saved: '2026-11-29T14:02:00Z',
    files: 3,
    size: 1_200_000_000,
    left_out: [{ path: '.netrc', why: 'it may have passwords or tokens' }],
    left_out_count: 1,
    doing: '' as const,
    done: 0,
    total: 0,
    last: null
  };
  const { changes, node, server } = await openPage(connectedTPU({ home }), {
    ...listed(),
    [SAVE_HOME]: [202, anOperation({ kind: 'save-home' })]
  } as never);
  await shows(node, 'Home folders', '1.2 GB', BUCKET, 'without .netrc');
  await press(node, 'Save the home folders now');
  await server.counts(SAVE_HOME);
  const saving = { ...home, doing: 'save' as const, done: 3e6, total: 4e7 };
  changes.tpu(connectedTPU({ home: saving }));
  await shows(node, 'saving (3.0 MB of 40.0 MB)');
});

import { IPaletteItem } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { addCommands } from '../actions/commands';
import { StatusItem } from '../panel/statusBar';
import { IOperation, IProblem } from '../rest/api';
import {
  answerDialog,
  button,
  disposeWidgets,
  listOf,
  openPanel,
  shows,
  type,
  widgets
} from './opened';
import {
  Answer,
  aCost,
  aKernel,
  anOperation,
  aQuote,
  aStatus,
  aTPU,
  catalog,
  connectedTPU,
  openModel
} from './server';

afterEach(disposeWidgets);

describe('an empty panel says what to do', () => {
  const problem = (reason: string): IProblem => ({
    message: `It is ${reason}.`,
    reason: reason as never,
    hint: `Do this about ${reason}.`,
    retry_after: null,
    scope: '',
    field: ''
  });

  it('where there are no TPUs: create one', async () => {
    const { node } = await openPanel();
    await shows(node, 'No TPUs yet', 'Create a TPU');
    button(node, 'New TPU').click();
    await vi.waitFor(() => expect(node.querySelector('form')).toBeTruthy());
  });

  it.each(['NO_CREDENTIALS', 'NO_PROJECT'])(
    'where there are %s',
    async reason => {
      const { node } = await openPanel({
        'GET tpus': [200, { tpus: [], problem: problem(reason) }]
      });
      await shows(node, `It is ${reason}.`, `Do this about ${reason}.`);
      expect(button(node, 'Try Again').disabled).toBe(false);
    }
  );

  it('where the server has no extension', async () => {
    const { node, server } = await openPanel({ 'GET tpus': [404, '<html>'] });
    await shows(node, 'jupyter server extension enable jupyter_tpu');
    expect(button(node, 'New TPU').disabled).toBe(true);
    server.answers['GET tpus'] = [200, { tpus: [], problem: null }];
    button(node, 'Try Again').click();
    await shows(node, 'No TPUs yet');
  });

  it('where the server does not answer', async () => {
    const { node } = await openPanel({ 'GET tpus': 'no network' });
    await shows(node, 'is not responding', 'Check that it is running');
  });
});

describe('a TPU in the list', () => {
  it('says in words what it is and how it is', async () => {
    const { node } = await openPanel(
      listOf(
        connectedTPU({ kernels: 2 }),
        aTPU({ name: 'real', emulated: false })
      )
    );
    const [mine, real] = [...node.querySelectorAll('li.jp-tpu-TPU')];
    for (const text of [
      'my-tpu',
      'emulated',
      'v5litepod-8 · us-central1-a',
      'Connected',
      '2 kernels'
    ]) {
      expect(mine.textContent).toContain(text);
    }
    expect(mine.innerHTML).toContain('8 chips · 1 host · 128 GB HBM');
    expect(real.textContent).not.toContain('emulated');
    expect(real.textContent).toContain('Ready to connect');
  });

  it('shows what it costs, and never a price that is not known', async () => {
    const emulated = false;
    const { node } = await openPanel(
      listOf(
        aTPU({ name: 'a-emulated' }),
        aTPU({ name: 'b-ready', emulated, cost: aCost() }),
        aTPU({
          name: 'c-stopped',
          state: 'STOPPED',
          emulated,
          cost: aCost({ since: '' })
        }),
        aTPU({
          name: 'd-unknown',
          emulated,
          cost: aCost({
            usd_per_hour: null,
            list_usd_per_hour: null,
            usd: null
          })
        }),
        aTPU({
          name: 'e-granted',
          emulated,
          cost: aCost({ grant: 'trc', usd_per_hour: 0, usd: 0 })
        })
      )
    );
    const [free, ready, stopped, unknown, granted] = [
      ...node.querySelectorAll('li.jp-tpu-TPU')
    ].map(one => one.textContent);
    expect(free).not.toContain('$');
    expect(ready).toContain('$9.60/h');
    expect(stopped).not.toContain('$'); // only its disk is billed
    expect(unknown).toContain('price unknown');
    expect(unknown).not.toContain('$');
    expect(granted).toContain('in the grant trc');
    expect(granted).not.toContain('$');
    button(node, 'b-ready').click();
    await shows(
      node,
      'About $9.60 an hour · about $28.80 so far',
      'About $9.60 an hour (us-central1, on demand, list price of 2024-12-23)',
      'Cost so farAbout $28.80'
    );
    button(node, 'c-stopped').click();
    await shows(node, 'About $9.60 an hour when started · about $28.80 so far');
  });

  it('says what a notebook uses of a TPU of several hosts', async () => {
    const host = (index: number) => ({
      index,
      internal_address: `10.0.0.${index}`,
      external_address: '',
      link: { state: 'down', since: '', problem: null }
    });
    const { actions, node } = await openPanel(
      listOf(aTPU({ type: 'v4-32', hosts: [0, 1, 2, 3].map(host) as never }))
    );
    await actions.model.loadCatalog();
    button(node, 'my-tpu').click();
    await shows(
      node,
      'A notebook uses all hosts, or one host: 4 of 16 devices.'
    );
  });

  it('folds the parts of its page, which stay so for all TPUs', async () => {
    const other = connectedTPU({ name: 'other', id: 'other' });
    const { node } = await openPanel(listOf(connectedTPU(), other));
    button(node, 'my-tpu').click();
    await shows(node, 'Python 3.12.4');
    const environments = button(node, 'Environments');
    environments.click();
    await vi.waitFor(() => {
      expect(environments.getAttribute('aria-expanded')).toBe('false');
      expect(node.textContent).not.toContain('Python 3.12.4');
    });
    button(node, 'other').click();
    await vi.waitFor(() =>
      expect(node.querySelectorAll('.jp-tpu-Page h2')).toHaveLength(2)
    );
    expect(node.textContent).not.toContain('Python 3.12.4');
  });

  it('says on its page when it was deleted, and is shown again when it is back', async () => {
    const { changes, node } = await openPanel(listOf(connectedTPU()));
    button(node, 'my-tpu').click();
    await shows(node, 'Python 3.12.4');
    changes.gone('tpu', 'us-central1-a/my-tpu');
    const page = node.querySelector<HTMLElement>('.jp-tpu-Page')!;
    await shows(page, 'There is no TPU my-tpu in us-central1-a', 'v5litepod-8');
    changes.tpu(connectedTPU());
    await shows(page, 'Python 3.12.4');
  });

  it('is found among many by words', async () => {
    const many = [...Array(30).keys()].map(number =>
      aTPU({ name: `tpu-${number}`, id: `${number}` })
    );
    const { changes, node } = await openPanel(listOf(...many));
    await shows(node, 'tpu-29');
    const rows = () => [...node.querySelectorAll('li.jp-tpu-TPU')];
    expect(rows()).toHaveLength(30);
    const input = node.querySelector<HTMLInputElement>('[type=search]')!;
    type(input, 'us-central1 TPU-7');
    await vi.waitFor(() => expect(rows()).toHaveLength(1));
    type(input, 'stopped');
    await shows(node, 'No TPU matches.');
    changes.tpu({ ...many[3], state: 'STOPPED' });
    await vi.waitFor(() => expect(rows()).toHaveLength(1));
    expect(rows()[0].textContent).toContain('tpu-3');
  });

  it('opens its page with hosts and why a link is down', async () => {
    const problem = {
      message: 'It hung up.',
      reason: 'UNREACHABLE',
      hint: '',
      retry_after: null,
      scope: '',
      field: ''
    };
    const link = { state: 'waiting', since: '', problem };
    const host = { index: 0, internal_address: '10.0.0.2', link };
    const tpu = connectedTPU({
      hosts: [{ ...host, external_address: '' } as never]
    });
    const { node } = await openPanel(listOf(tpu));
    button(node, 'my-tpu').click();
    await shows(
      node,
      '10.0.0.2',
      'retrying',
      'It hung up.',
      'Python 3.12.4 · JAX 0.7.2 · 8 cpu devices'
    );
    // What heals by itself is no alarm.
    const row = [...node.querySelectorAll('.jp-tpu-Row')].find(one =>
      one.textContent!.includes('10.0.0.2')
    );
    expect(row?.querySelector('.jp-tpu-Dot.jp-mod-moving')).not.toBeNull();
    expect(row?.querySelector('.jp-tpu-Dot.jp-mod-bad')).toBeNull();
  });

  it('opens a terminal on each of its hosts', async () => {
    const host = (index: number) => ({
      index,
      internal_address: `10.0.0.${index}`,
      external_address: '',
      link: { state: 'down', since: '', problem: null }
    });
    const { commands, node } = await openPanel({
      ...listOf(aTPU({ hosts: [0, 1].map(host) as never })),
      'POST tpus/us-central1-a~my-tpu/hosts/1/terminals': [201, { name: '7' }]
    });
    const execute = vi.fn();
    commands.addCommand('terminal:create-new', {
      describedBy: { args: {} },
      execute
    });
    button(node, 'my-tpu').click();
    await shows(node, '10.0.0.1');
    button(node, 'Open a terminal on host 1').click();
    await vi.waitFor(() => expect(execute).toHaveBeenCalledWith({ name: '7' }));
  });

  it('says who has a kernel, and has this server take it', async () => {
    const mine = aKernel({ id: 'mine', notebook: 'mine.ipynb' });
    const theirs = aKernel({
      notebook: 'theirs.ipynb',
      holder: 'me@laptop',
      booked: [2, 3]
    });
    const dead = aKernel({ id: 'dead', notebook: 'd.ipynb', state: 'dead' });
    let kernels = [mine, theirs, dead];
    const path = 'tpus/us-central1-a~my-tpu/kernels';
    const { actions, node, server } = await openPanel({
      ...listOf(connectedTPU({ kernels: 2 })),
      [`GET ${path}`]: () => [200, kernels],
      [`POST ${path}/k1/take`]: [204, null]
    });
    await actions.serverKernels.show('mine');
    button(node, 'my-tpu').click();
    await shows(node, 'theirs.ipynb chips 2-3', 'In use by me@laptop.');
    const take = button(node, 'Take over theirs.ipynb…');
    expect(node.textContent!.match(/Take over…/g)).toHaveLength(1);
    kernels = [{ ...theirs, attached: false }];
    take.click();
    await shows(document.body, 'Not in use (last used by me@laptop).');
    await shows(document.body, 'can no longer use it');
    button(document.body, 'Take Over').click();
    await vi.waitFor(() =>
      expect(server.count(`POST ${path}/k1/take`)).toBe(1)
    );
    // It is this server's now.
    await vi.waitFor(() =>
      expect(node.textContent).not.toContain('Take over…')
    );
  });

  it('shows what was refused, beside it, until it is dismissed', async () => {
    const { node } = await openPanel({
      ...listOf(aTPU({ state: 'STOPPED' })),
      'POST tpus/us-central1-a~my-tpu/start': [
        429,
        {
          message: 'Too many.',
          reason: 'QUOTA',
          hint: 'Ask for more.',
          retry_after: null,
          scope: '',
          field: ''
        }
      ]
    });
    button(node, 'Start').click();
    await shows(node, 'Too many.', 'Ask for more.');
    expect(node.querySelector('[role=alert]')).toBeTruthy();
    button(node, 'Dismiss').click();
    await vi.waitFor(() => {
      expect(node.textContent).not.toContain('Too many.');
    });
  });
});

describe('an operation', () => {
  const running = anOperation({
    progress: 0.4,
    steps: [
      { title: 'Reach the hosts', state: 'done', hosts_done: 4, hosts: 4 },
      { title: 'Install JAX', state: 'running', hosts_done: 2, hosts: 4 }
    ],
    log: ['Collecting jax']
  });

  it('shows progress, its step, its log, and can be cancelled', async () => {
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU({ connection: 'connecting' })),
      'GET operations/o1': [200, running],
      'DELETE operations/o1': [
        200,
        { ...running, state: 'cancelled' } satisfies IOperation
      ]
    });
    changes.operation({ ...running, log: [] });
    await shows(node, 'Connecting my-tpu', 'Install JAX · 2 of 4 hosts');
    const bar = node.querySelector('[role=progressbar]');
    expect(bar?.getAttribute('aria-valuenow')).toBe('40');
    button(node, 'Show details').click();
    await shows(node, 'Collecting jax');
    button(node, 'Cancel').click();
    await shows(node, 'Connecting my-tpu was cancelled');
    expect(server.count('DELETE operations/o1')).toBe(1);
    button(node, 'Dismiss').click();
    await vi.waitFor(() => {
      expect(node.querySelector('.jp-tpu-Operation')).toBeNull();
    });
  });

  it('that failed says why and what to do, and can be tried again', async () => {
    const problem: IProblem = {
      message: 'The disk is full.',
      reason: 'DISK_FULL',
      hint: 'Make room.',
      retry_after: null,
      scope: '',
      field: ''
    };
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU()),
      'POST tpus/us-central1-a~my-tpu/connect': [202, anOperation({ id: 'o2' })]
    });
    changes.operation(anOperation({ state: 'failed', problem }));
    await shows(
      node,
      'my-tpu could not be connected',
      'The disk is full.',
      'Make room.'
    );
    button(node, 'Try Again').click();
    await shows(node, 'Connecting my-tpu');
    expect(node.textContent).not.toContain('could not be connected');
    expect(server.count('POST tpus/us-central1-a~my-tpu/connect')).toBe(1);
  });

  it('to create what failed opens the form as it was filled in', async () => {
    const created = anOperation({ kind: 'create', tpu: 'mine' });
    const { node, actions, changes } = await openPanel({
      'POST tpus': [202, created]
    });
    await actions.model.loadCatalog();
    actions.createForm.set('name', 'mine');
    actions.createForm.set('type', 'v4-32');
    await actions.submit(actions.createForm);
    const problem: IProblem = {
      message: 'No capacity.',
      reason: 'NO_CAPACITY',
      hint: 'Try another zone.',
      retry_after: null,
      scope: '',
      field: ''
    };
    changes.operation({ ...created, state: 'failed', problem });
    await shows(node, 'mine could not be created', 'No capacity.');
    button(node, 'Try Again').click();
    await vi.waitFor(() => {
      expect(node.querySelector('form input')).toHaveProperty('value', 'mine');
      expect(node.querySelector('form [role=combobox]')).toHaveProperty(
        'value',
        'v4-32'
      );
    });
  });
});

describe('the form', () => {
  const create = (reason: IProblem['reason'], field = ''): Answer => [
    409,
    {
      message: 'Not now.',
      reason,
      hint: '',
      retry_after: null,
      scope: '',
      field
    }
  ];

  it('keeps its input when it is refused, and its error has the focus', async () => {
    const { actions, node } = await openPanel({
      'POST quotes': [200, aQuote()],
      'POST tpus': create('QUOTA')
    });
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.createForm.set('name', 'mine');
    button(node, 'Create').click();
    await shows(node, 'Not now.');
    const alert = node.querySelector('form [role=alert]')!;
    expect(alert.parentElement).toBe(document.activeElement);
    expect(node.querySelector('form input')).toHaveProperty('value', 'mine');
  });

  it('is left with Escape, and has what was typed when it is opened again', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.createForm.set('name', 'mine');
    const press = { key: 'Escape', bubbles: true };
    node
      .querySelector('form input')!
      .dispatchEvent(new KeyboardEvent('keydown', press));
    await shows(node, 'No TPUs yet');
    actions.openCreateForm();
    await vi.waitFor(() =>
      expect(node.querySelector('form input')).toHaveProperty('value', 'mine')
    );
  });

  it('moves the focus to the row of what it created', async () => {
    const operation = anOperation({ kind: 'create', tpu: 'mine' });
    const { actions, changes, node } = await openPanel({
      ...listOf(aTPU({ name: 'other', id: 'other' })),
      'POST quotes': [200, aQuote()],
      'POST tpus': [202, operation]
    });
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.createForm.set('name', 'mine');
    button(node, 'Create').click();
    await shows(node, 'Creating mine');
    changes.tpu(aTPU({ name: 'mine', state: 'CREATING' }));
    await vi.waitFor(() =>
      expect(button(node, 'mine')).toBe(document.activeElement)
    );
    // It goes to a neighbor when that is gone.
    changes.gone('tpu', 'us-central1-a/mine');
    await vi.waitFor(() =>
      expect(button(node, 'other')).toBe(document.activeElement)
    );
  });

  it('hunts for what Google had no capacity for', async () => {
    const { actions, changes, node } = await openPanel();
    const [, problem] = create('NO_CAPACITY') as [number, IProblem];
    const failed = { kind: 'create', tpu: 'mine', state: 'failed' } as const;
    changes.operation(anOperation({ ...failed, problem }));
    await shows(node, 'mine could not be created');
    button(node, 'Hunt in More Zones…').click();
    await shows(node, 'Start Hunt');
    expect(actions.createForm.fields).toMatchObject({
      name: 'mine',
      hunt: true
    });
  });

  it('says what each type costs', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Advanced');
    node.querySelector<HTMLElement>('[role=combobox]')!.click();
    await shows(node, 'v5litepod-8 $9.60/h 8 chips · 1 host · 128 GB HBM');
    await shows(node, 'v4-32 $51.52/h 16 chips');
  });
});

describe('what goes on without the user', () => {
  it('can be left, and comes back if it fails', async () => {
    const { node, changes } = await openPanel(listOf(aTPU()));
    const deleting = anOperation({ kind: 'delete', cancellable: false });
    changes.operation(deleting);
    await shows(node, 'Deleting my-tpu');
    expect(() => button(node, 'Cancel')).toThrow();
    button(node, 'Stop waiting').click();
    await vi.waitFor(() => {
      expect(node.querySelector('.jp-tpu-Operation')).toBeNull();
    });
    // It runs all the same: nothing else can be done with the TPU.
    expect(button(node, 'Actions for my-tpu').disabled).toBe(true);
    const problem: IProblem = {
      message: 'You may not delete it.',
      reason: 'PERMISSION',
      hint: '',
      retry_after: null,
      scope: '',
      field: ''
    };
    changes.operation({ ...deleting, state: 'failed', problem });
    await shows(node, 'my-tpu could not be deleted', 'You may not delete it.');
  });

  it('says what Google refuses to delete, until the user ends that', async () => {
    const problem: IProblem = {
      message: 'my-tpu is not deleted yet. It has disks.',
      reason: 'CONFLICT',
      hint: '',
      retry_after: 30,
      scope: '',
      field: ''
    };
    const creating = anOperation({ kind: 'create', undeleted: 'retrying' });
    const cost = aCost();
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU({ emulated: false, cost, problem, queued: 'asked-for' })),
      'POST operations/o1/stop-trying': [202, creating]
    });
    expect(() => button(node, 'Stop Trying…')).toThrow();
    changes.operation(creating);
    await shows(node, 'Deleting my-tpu', 'It has disks.', 'in 30 s.');
    button(node, 'Stop Trying…').click();
    await answerDialog('Cancel');
    button(node, 'Stop Trying…').click();
    expect(await answerDialog('Stop Trying')).toContain(
      'You keep paying for it: About $9.60 an hour'
    );
    await vi.waitFor(() => {
      const asked = server.calls.filter(one => one.method === 'POST');
      expect(asked.map(one => one.body)).toEqual([{ keep_tpu: true }]);
    });
    changes.operation({
      ...creating,
      state: 'failed',
      undeleted: 'kept',
      problem: { ...problem, message: 'my-tpu is READY. It has disks.' }
    });
    await shows(node, 'my-tpu could not be deleted', 'my-tpu is READY.');
    expect(() => button(node, 'Stop Trying…')).toThrow();
    button(node, 'Try Again').click();
    const question = await answerDialog('Cancel');
    expect(question).toContain('Delete my-tpu?');
    expect(question).toContain('Its queued resource asked-for');
  });

  it('says when it is tried again', async () => {
    const problem: IProblem = {
      message: 'Too many requests.',
      reason: 'RATE_LIMITED',
      hint: '',
      retry_after: 29.5,
      scope: 'project',
      field: ''
    };
    const { node, server } = await openPanel({
      ...listOf(aTPU({ state: 'STOPPED', problem })),
      'POST tpus/us-central1-a~my-tpu/start': [429, problem]
    });
    await shows(node, 'Too many requests.', 'Trying again in 30 s.');
    button(node, 'Start').click();
    await shows(node, 'Try again in 30 s.'); // this one only the user can
    expect(server.count('POST tpus/us-central1-a~my-tpu/start')).toBe(1);
  });

  it('shows which of the server’s tasks fail, until they work', async () => {
    const loop = {
      name: 'poll of Google',
      failing: true,
      failures: 3,
      last_failure: '2026-10-14T10:00:00Z',
      last_error: 'OSError: no space'
    };
    const fine = { ...loop, name: 'TPUs', failing: false };
    const { model, node, server } = await openPanel({
      ...listOf(aTPU()),
      'GET status': [200, aStatus({ loops: [loop, fine] })]
    });
    await shows(node, 'task of the server (poll of Google) fails: OSError');
    expect(node.textContent).not.toContain('(TPUs)');
    server.answers['GET status'] = [200, aStatus({ loops: [fine] })];
    await model.refresh();
    await vi.waitFor(() => expect(node.textContent).not.toContain('OSError'));
  });
});

describe('a TPU that costs money', () => {
  it('is created after its price was shown twice: in the form, and in a question', async () => {
    const { actions, node, server } = await openPanel({
      'GET catalog': [200, { ...catalog, emulated: false }],
      'POST quotes': [200, aQuote()],
      'POST tpus': [202, anOperation({ kind: 'create' })]
    });
    actions.openCreateForm();
    await shows(
      node,
      'About $9.60 an hour (us-central1, on demand, list price of 2024)',
      'You pay while it is ready, used or not.'
    );
    button(node, 'Create').click();
    await shows(
      document.body,
      'Create my-tpu?',
      'About $9.60 an hour (us-central1, on demand, list price of 2024-12-23)',
      'Stop or delete it to stop paying.'
    );
    const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
    expect(server.count('POST tpus')).toBe(0);
    button(dialog, 'Create').click();
    await vi.waitFor(() => expect(server.count('POST tpus')).toBe(1));
  });

  it('is looked at again while somebody sees the panel', async () => {
    vi.useFakeTimers();
    try {
      const { server } = await openPanel();
      const [panel] = widgets;
      panel.hide();
      panel.show();
      const before = server.count('GET tpus');
      await vi.advanceTimersByTimeAsync(250_000);
      expect(server.count('GET tpus')).toBe(before + 2);
      panel.hide();
      await vi.advanceTimersByTimeAsync(600_000);
      expect(server.count('GET tpus')).toBe(before + 2);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is said to cost nothing where it is emulated', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Costs nothing. A real one: about $9.60 an');
    actions.createForm.set('type', 'v4-32');
    actions.createForm.set('tier', 'spot');
    await shows(node, 'Costs nothing. The price of a real one is unknown.');
    expect(node.textContent).not.toContain('You pay');
  });
});

describe('the types of the form', () => {
  async function openTypes(): Promise<{
    input: HTMLInputElement;
    options: () => string[];
    press: (key: string) => void;
    type: (text: string) => void;
  }> {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    const input = await vi.waitFor(() => {
      const field = node.querySelector<HTMLInputElement>('[role=combobox]');
      expect(field).toBeTruthy();
      return field!;
    });
    const set = Object.getOwnPropertyDescriptor(
      HTMLInputElement.prototype,
      'value'
    )!.set!;
    return {
      input,
      options: () =>
        [...node.querySelectorAll('[role=group]')].map(
          group =>
            `${group.getAttribute('aria-label')}: ${[
              ...group.querySelectorAll('[role=option]')
            ].map(option => option.firstChild?.textContent)}`
        ),
      press: key =>
        input.dispatchEvent(
          new KeyboardEvent('keydown', { key, bubbles: true })
        ),
      type: text => {
        set.call(input, text);
        input.dispatchEvent(new Event('input', { bubbles: true }));
      }
    };
  }

  it('are listed by generation, and chosen with the keyboard', async () => {
    const { input, options, press } = await openTypes();
    expect(input.value).toBe('v5litepod-8');
    input.click();
    await vi.waitFor(() =>
      expect(options()).toEqual(['TPU v4: v4-32', 'TPU v5e: v5litepod-8'])
    );
    press('ArrowUp');
    await vi.waitFor(() =>
      expect(input.getAttribute('aria-activedescendant')).toMatch(/v4-32$/)
    );
    press('Enter');
    await vi.waitFor(() => expect(input.value).toBe('v4-32'));
    expect(options()).toEqual([]);
  });

  it('are found by words, and Escape keeps the chosen one', async () => {
    const { input, options, press, type } = await openTypes();
    type('4 HOSTS');
    await vi.waitFor(() => expect(options()).toEqual(['TPU v4: v4-32']));
    type('8 hosts'); // 8 chips on 1 host
    await vi.waitFor(() => expect(options()).toEqual([]));
    type('v5e 12');
    await vi.waitFor(() => expect(options()).toEqual([]));
    type('v5lite 128');
    await vi.waitFor(() => expect(options()).toEqual(['TPU v5e: v5litepod-8']));
    type('nothing like this');
    await vi.waitFor(() => expect(options()).toEqual([]));
    press('Escape');
    await vi.waitFor(() => expect(input.value).toBe('v5litepod-8'));
    type('v4');
    await vi.waitFor(() => expect(options()).toEqual(['TPU v4: v4-32']));
    press('Enter');
    await vi.waitFor(() => expect(input.value).toBe('v4-32'));
  });
});

describe('the commands', () => {
  it('do to a TPU what its state allows', async () => {
    const { commands, server } = await openPanel({
      ...listOf(aTPU(), aTPU({ name: 'off', state: 'STOPPED' })),
      'POST tpus/us-central1-a~off/start': [
        202,
        anOperation({ kind: 'start', tpu: 'off' })
      ]
    });
    const ready = { tpu: 'us-central1-a/my-tpu' };
    expect(commands.isEnabled('tpu:start', ready)).toBe(false);
    expect(commands.isEnabled('tpu:connect', ready)).toBe(true);
    // Without arguments: the only one that can be started.
    await commands.execute('tpu:start');
    expect(server.count('POST tpus/us-central1-a~off/start')).toBe(1);
  });

  it('are in the palette once each, and ask for the TPU', async () => {
    const tpus = [aTPU(), aTPU({ name: 'other' })];
    const { actions, server } = await openPanel({
      ...listOf(...tpus),
      'POST tpus/us-central1-a~other/connect': [
        202,
        anOperation({ tpu: 'other' })
      ]
    });
    const items: IPaletteItem[] = [];
    const palette = {
      addItem: (item: IPaletteItem) => items.push(item)
    };
    const commands = new CommandRegistry();
    addCommands(commands, palette as never, actions);
    const labels = items.map(({ args, command }) =>
      commands.label(command, args)
    );
    expect(labels).toContain('TPU: Connect');
    expect(new Set(labels).size).toBe(labels.length);
    expect(labels.length).toBeLessThan(45);
    // Only what some TPU allows is offered.
    const args = { isPalette: true };
    expect(commands.isEnabled('tpu:start', args)).toBe(false);
    const done = commands.execute('tpu:connect', args);
    await vi.waitFor(() => {
      const select =
        document.querySelector<HTMLSelectElement>('.jp-Dialog select');
      expect(select).toBeTruthy();
      select!.value = 'us-central1-a/other';
      select!.dispatchEvent(new Event('change', { bubbles: true }));
    });
    await answerDialog('Ok');
    await done;
    expect(server.count('POST tpus/us-central1-a~other/connect')).toBe(1);
  });

  it('are in groups, and those for files, ports and chips in submenus', async () => {
    const { node } = await openPanel(listOf(connectedTPU()));
    const entries = (menu: Element) =>
      [...menu.querySelectorAll<HTMLElement>('.lm-Menu-item')]
        .filter(item => !item.classList.contains('lm-mod-collapsed'))
        .map(item => (item.role === 'menuitem' ? item.textContent : '—'));
    button(node, 'Actions for my-tpu').click();
    await shows(document.body, 'New Notebook');
    const [menu] = document.getElementsByClassName('lm-Menu');
    expect(entries(menu)).toEqual([
      'New Notebook',
      'New Console',
      'Open Example…',
      'Open Terminal',
      'Run Command…',
      'New Job…',
      '—',
      'Files',
      'Web Apps and Ports',
      'Chips and Profiles',
      'Check This TPU…',
      '—',
      'New Environment…',
      'Tokens…',
      'Disconnect',
      '—',
      'Stop Automatically…',
      'Stop…',
      '—',
      'Replace This TPU…',
      'Delete…'
    ]);
    for (const key of [
      { key: 'F', keyCode: 70 },
      { key: 'ArrowRight', keyCode: 39 }
    ]) {
      menu.dispatchEvent(new KeyboardEvent('keydown', key));
    }
    const [, files] = document.getElementsByClassName('lm-Menu');
    expect(entries(files)).toEqual([
      'Browse Files',
      'Upload Files…',
      'Download File…',
      'Copy Files and Folders…',
      'Sync a Folder…',
      'Share a Folder…'
    ]);
  });

  it('say why a pod or a Spot TPU cannot be stopped', async () => {
    const host = { index: 0, internal_address: '', external_address: '' };
    const pod = aTPU({ name: 'pod', hosts: [host, host] as never });
    const spot = aTPU({ name: 'spot', tier: 'spot' });
    const { commands, node } = await openPanel(listOf(pod, spot));
    for (const [name, label] of [
      ['pod', 'Stop (only possible with 1 host)'],
      ['spot', 'Stop (not possible with Spot)']
    ]) {
      button(node, `Actions for ${name}`).click();
      await shows(document.body, label);
      const [menu] = document.getElementsByClassName('lm-Menu');
      const item = [...menu.querySelectorAll('.lm-Menu-item')].find(
        one => one.textContent === label
      );
      expect(item?.classList).toContain('lm-mod-disabled');
      const args = { tpu: `us-central1-a/${name}` };
      expect(commands.isEnabled('tpu:stop', args)).toBe(false);
    }
  });

  it('that are not about one TPU are in the menu of the panel', async () => {
    const { node } = await openPanel();
    button(node, 'More').click();
    await shows(document.body, 'TPU Usage…', 'Queued Resources…', 'Grants…');
    await shows(document.body, 'Attach a Machine…', 'Tokens…', 'Check Setup…');
  });

  it('fill the form in', async () => {
    const { commands, node } = await openPanel();
    await commands.execute('tpu:create', { name: 'given', type: 'v4-32' });
    await vi.waitFor(() => {
      expect(node.querySelector('form input')).toHaveProperty('value', 'given');
    });
  });

  it('all describe their arguments', async () => {
    const { commands } = await openPanel();
    for (const id of commands.listCommands()) {
      const { args } = await commands.describedBy(id);
      expect(args, id).toMatchObject({ type: 'object' });
    }
  });
});

describe('the status bar item', () => {
  it('turns grey when the server does not answer', async () => {
    const { model, server } = await openModel(listOf(connectedTPU()));
    server.answers['GET tpus'] = 'no network';
    await model.refresh();
    const item = new StatusItem(model, () => undefined);
    widgets.push(item);
    Widget.attach(item, document.body);
    await shows(item.node, 'TPU: server not responding');
    expect(item.node.querySelector('button.jp-mod-away')).toBeTruthy();
    expect(item.node.querySelector('.jp-mod-good')).toBeNull();
  });

  async function says(tpus: object[], operation?: IOperation): Promise<string> {
    const { model, changes } = await openModel(listOf(...tpus));
    if (operation) {
      changes.operation(operation);
    }
    const item = new StatusItem(model, () => undefined);
    widgets.push(item);
    Widget.attach(item, document.body);
    await item.renderPromise;
    return item.node.textContent ?? '';
  }

  it.each([
    ['nothing where nothing is connected', [aTPU()], undefined, ''],
    [
      'that a TPU is connected',
      [connectedTPU()],
      undefined,
      'TPU: my-tpu connected'
    ],
    [
      'how many are',
      [connectedTPU(), connectedTPU({ zone: 'elsewhere' })],
      undefined,
      'TPU: 2 TPUs connected'
    ],
    [
      'what is going on',
      [aTPU()],
      anOperation({ progress: 0.4 }),
      'TPU: Connecting my-tpu 40 %'
    ],
    [
      'first of all what needs attention',
      [connectedTPU({ connection: 'needs-attention' })],
      anOperation({ progress: 0.4 }),
      'TPU: my-tpu needs attention'
    ]
  ])('says %s', async (_, tpus, operation, text) => {
    await vi.waitFor(async () => {
      expect(await says(tpus, operation)).toBe(text);
    });
  });
});

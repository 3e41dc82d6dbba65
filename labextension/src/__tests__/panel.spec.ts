import { Widget } from '@lumino/widgets';
import { describe, expect, it, vi } from 'vitest';

import { StatusItem } from '../panel/statusBar';
import { IOperation, Reason } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import {
  aCost,
  aKernel,
  anOperation,
  aProblem,
  aTPU,
  button,
  connectedTPU,
  hides,
  listOf,
  openModel,
  openPage,
  openPanel,
  refused,
  shows,
  someHosts,
  type,
  widgets
} from './opened';

describe('an empty panel says what to do', () => {
  const problem = (reason: Reason) =>
    aProblem(`It is ${reason}.`, reason, `Do this about ${reason}.`);

  it('where there are no TPUs: create one', async () => {
    const { node } = await openPanel();
    await shows(node, 'No TPUs yet', 'Create a TPU');
    button(node, 'New TPU').click();
    await expect.poll(() => node.querySelector('form')).toBeTruthy();
  });

  it.each(['NO_CREDENTIALS', 'NO_PROJECT'] as const)(
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
    Object.assign(server.answers, listOf());
    button(node, 'Try Again').click();
    await shows(node, 'No TPUs yet');
  });

  it('where the server does not answer', async () => {
    const { node } = await openPanel({ 'GET tpus': 'no network' });
    await shows(node, 'is not responding', 'Check that it is running');
  });
});

describe('a TPU in the list', () => {
  it('says its zone plainly while another one has the same name', async () => {
    const [here, there] = [aTPU(), aTPU({ zone: 'us-west4-a', id: '2' })];
    const { changes, node } = await openPanel(
      listOf(here, there, aTPU({ name: 'other', id: '3' }))
    );
    const names = () =>
      [...node.querySelectorAll('li.jp-tpu-TPU')].map(one => [
        one.getAttribute('aria-label'),
        one.querySelector('strong')?.textContent
      ]);
    await expect.poll(names).toEqual([
      ['my-tpu · us-central1-a', 'us-central1-a'],
      ['my-tpu · us-west4-a', 'us-west4-a'],
      ['other', undefined]
    ]);
    changes.gone('tpu', keyOf(there));
    await expect.poll(names).toEqual([
      ['my-tpu', undefined],
      ['other', undefined]
    ]);
  });

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
    const { actions, node } = await openPanel(
      listOf(aTPU({ type: 'v4-32', hosts: someHosts(4) }))
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
    await expect
      .poll(() => node.querySelectorAll('.jp-tpu-Page h2'))
      .toHaveLength(2);
    expect(node.textContent).not.toContain('Python 3.12.4');
  });

  it('says on its page when it was deleted, and is shown again when it is back', async () => {
    const { changes, node } = await openPage(connectedTPU());
    await shows(node, 'Python 3.12.4');
    changes.gone('tpu', 'us-central1-a/my-tpu');
    const page = node.querySelector<HTMLElement>('.jp-tpu-Page')!;
    await shows(page, 'There is no TPU my-tpu in us-central1-a', 'v5litepod-8');
    changes.operation(anOperation({ kind: 'delete' }));
    changes.operation(anOperation({ kind: 'delete', state: 'done' }));
    await shows(page, 'Deleted my-tpu', 'Show All TPUs');
    changes.tpu(connectedTPU());
    await shows(page, 'Python 3.12.4');
  });

  it('is found among many by words', async () => {
    const many = [...Array(30).keys()].map(number =>
      aTPU({ name: `tpu-${number}`, id: `${number}` })
    );
    const { actions, changes, node } = await openPanel(listOf(...many));
    await shows(node, 'tpu-29');
    const rows = () => [...node.querySelectorAll('li.jp-tpu-TPU')];
    expect(rows()).toHaveLength(30);
    const input = node.querySelector<HTMLInputElement>('[type=search]')!;
    type(input, 'us-central1 TPU-7');
    await expect.poll(rows).toHaveLength(1);
    type(input, 'stopped');
    await shows(node, 'No TPU matches.');
    changes.tpu({ ...many[3], state: 'STOPPED' });
    await expect.poll(rows).toHaveLength(1);
    expect(rows()[0].textContent).toContain('tpu-3');
    // Which of them is idle, too.
    const sample = { time: 1, state: 'idle', chips: [], queue: null };
    const load = { next: 1, hosts: [{ host: 0, samples: [sample] }] };
    actions.loads.of = ({ id }) =>
      id === '5' ? { load: load as never, failure: null } : undefined;
    type(input, 'idle');
    await vi.waitFor(() => expect(rows()).toHaveLength(1));
    expect(rows()[0].textContent).toContain('tpu-5');
  });

  it('opens its page with hosts and why a link is down', async () => {
    const problem = aProblem('It hung up.', 'UNREACHABLE');
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
    const { commands, node } = await openPage(aTPU({ hosts: someHosts(2) }), {
      'POST tpus/us-central1-a~my-tpu/hosts/1/terminals': [201, { name: '7' }]
    });
    const execute = vi.fn();
    commands.addCommand('terminal:create-new', {
      describedBy: { args: {} },
      execute
    });
    await shows(node, '10.0.0.1');
    button(node, 'Open a terminal on host 1').click();
    await expect.poll(() => execute).toHaveBeenCalledWith({ name: '7' });
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
    const { actions, node, server } = await openPage(
      connectedTPU({ kernels: 2 }),
      {
        [`GET ${path}`]: () => [200, kernels],
        [`POST ${path}/k1/take`]: [204, null]
      }
    );
    await actions.serverKernels.show('mine');
    await shows(node, 'theirs.ipynb chips 2-3', 'In use by me@laptop.');
    const take = button(node, 'Take over theirs.ipynb…');
    expect(node.textContent!.match(/Take over…/g)).toHaveLength(1);
    kernels = [{ ...theirs, attached: false }];
    take.click();
    await shows(document.body, 'Not in use (last used by me@laptop).');
    await shows(document.body, 'can no longer use it');
    button(document.body, 'Take Over').click();
    await server.counts(`POST ${path}/k1/take`);
    // It is this server's now.
    await hides(node, 'Take over…');
  });

  it('shows what was refused, beside it, until it is dismissed', async () => {
    const { node } = await openPanel({
      ...listOf(aTPU({ state: 'STOPPED' })),
      'POST tpus/us-central1-a~my-tpu/start': refused(
        'Too many.',
        'QUOTA',
        'Ask for more.'
      )
    });
    button(node, 'Start').click();
    await shows(node, 'Too many.', 'Ask for more.');
    expect(node.querySelector('[role=alert]')).toBeTruthy();
    button(node, 'Dismiss').click();
    await hides(node, 'Too many.');
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

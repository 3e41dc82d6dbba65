import { afterEach, describe, expect, it, vi } from 'vitest';

import { isLoopback, reachableAddress } from '../forwarding/address';
import { portProblem } from '../forwarding/portLabels';
import { targetKey, targetOf } from '../model/appTarget';
import { TPUClient } from '../rest/client';
import {
  anApp,
  Answer,
  answerDialog,
  aProblem,
  aTPU,
  aTunnel,
  button,
  dialogInputs,
  hides,
  openPage,
  refused,
  shows,
  TestServer,
  type
} from './opened';

/** The details of a TPU with a tunnel and an app. */
async function openDetails(answers: { [call: string]: Answer } = {}) {
  const opened = await openPage(aTPU(), {
    'GET tunnels': [
      200,
      [aTunnel({ connections: 2, sent: 1500, received: 30_000_000 })]
    ],
    'GET apps': [200, [anApp(), anApp({ id: 'a2', tpu: 'another' })]],
    ...answers
  });
  const { node } = opened;
  const text = () => (node.textContent ?? '').replace(/\s+/g, ' ');
  const press = (label: string) => button(node, label).click();
  return { ...opened, text, press };
}

describe('the details of a TPU', () => {
  it('list tunnels and apps with what goes through them', async () => {
    const { text, changes } = await openDetails();
    expect(text()).toContain(
      'localhost:7007open · to port 6006 · 2 connections · 1.5 kB sent, 30.0 MB received'
    );
    expect(text()).toContain('TensorBoardopen · /home/me/runs · port 6006');
    expect(text().match(/TensorBoard/g)).toHaveLength(1);
    changes.tunnel(
      aTunnel({
        state: 'taken',
        problem: aProblem('It is taken.', 'CONFLICT', 'Wait.')
      })
    );
    changes.app(anApp({ state: 'waiting' }));
    await vi.waitFor(() => {
      expect(text()).toContain('local port in use · to port 6006');
      expect(text()).toContain('It is taken. Wait.');
      expect(text()).toContain('waiting for the connection · /home/me/runs');
    });
    changes.gone('tunnel', 't1');
    changes.gone('app', 'a1');
    await vi.waitFor(() => {
      expect(text()).toContain('Local ports forwarded to a host');
      expect(text()).toContain('Web apps on a host');
    });
  });

  it('close what is open, and show it', async () => {
    const { press, server, shown, text } = await openDetails({
      'DELETE tpus/us-central1-a~my-tpu/tunnels/t1': [200, ''],
      'DELETE apps/a1': refused('It did not end.')
    });
    press('Show TensorBoard');
    press('Open port 6006');
    await expect.poll(() => shown).toHaveBeenCalledTimes(2);
    expect(shown.mock.calls.flat()).toMatchObject([
      { tpu: 'us-central1-a/my-tpu', logdir: '/home/me/runs', port: 0 },
      { tpu: 'us-central1-a/my-tpu', logdir: '', port: 6006 }
    ]);
    press('Close the tunnel at localhost:7007');
    expect(await answerDialog('Close')).toContain('This ends 2 connections.');
    press('Close TensorBoard');
    await answerDialog('Close');
    await vi.waitFor(() => {
      expect(text()).not.toContain('localhost:7007');
      expect(text()).toContain('It did not end.');
    });
    expect(server.count('DELETE apps/a1')).toBe(1);
  });
});

describe('the dialog for a tunnel', () => {
  const path = 'tpus/us-central1-a~my-tpu/tunnels';
  const open = async () => {
    const { press, server } = await openDetails({
      [`POST ${path}`]: [201, aTunnel()]
    });
    press('New tunnel to my-tpu');
    const inputs = await dialogInputs(2);
    return { server, inputs };
  };

  it('has a field for each port, the local one optional', async () => {
    const { server, inputs } = await open();
    type(inputs[0], '7860');
    await answerDialog('Open');
    await server.counts(`POST ${path}`);
    expect(server.posts).toEqual([{ port: 7860, local_port: null, host: 0 }]);
  });

  it('says what a port is, and opens none that is wrong', async () => {
    const { server, inputs } = await open();
    const select = vi.spyOn(inputs[0], 'select');
    inputs[0].blur();
    inputs[0].focus();
    expect(select).toHaveBeenCalled(); // what is typed replaces the port
    const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
    type(inputs[1], '70000');
    await shows(dialog, 'Enter a number from 1 to 65535.');
    expect(button(dialog, 'Open').disabled).toBe(true);
    type(inputs[1], '7007');
    await hides(dialog, 'Enter a number');
    await answerDialog('Open');
    await server.counts(`POST ${path}`);
    expect(server.posts).toEqual([{ port: 6006, local_port: 7007, host: 0 }]);
  });

  it.each<[string, boolean]>([
    ['6006', true],
    ['65535', true],
    ['0', false],
    ['70000', false],
    ['6006:7007', false],
    ['-1', false],
    ['', false]
  ])('takes %j: %s', (text, right) => {
    expect(portProblem(text) === '').toBe(right);
  });
});

describe('an app target', () => {
  it('is the same for the same page, and holds no address', () => {
    const board = targetOf(anApp());
    expect(JSON.stringify(board)).not.toContain('6006');
    expect(targetKey(board)).toBe(targetKey(targetOf(anApp({ port: 1 }))));
    const port = targetOf(anApp({ kind: 'port', logdir: '' }));
    expect(targetKey(port)).not.toBe(targetKey(board));
    expect(targetKey(port)).not.toBe(targetKey({ ...port, host: 1 }));
  });

  it.each<[string, boolean]>([
    ['localhost', true],
    ['127.0.0.1', true],
    ['[::1]', true],
    ['lab.localhost', true],
    ['hub.example.org', false],
    ['127.0.0.1.example.org', false],
    ['10.0.0.1', false]
  ])('at %s is on this machine: %s', (hostname, here) => {
    expect(isLoopback(hostname)).toBe(here);
  });
});

describe('the address of an app', () => {
  const HERE = { hostname: 'localhost', port: '8888' };
  const HUB = { hostname: 'hub.example.org', port: '' };
  const url = 'http://app-1.localhost:4321/.jupyter-tpu/enter/x';
  const probe = 'http://app-1.localhost:4321/.jupyter-tpu/here';

  /** What a visit answers to the server's own client. */
  async function visit(server_path: string) {
    const server = new TestServer({
      'POST apps/a1/visits': [201, { url, probe, server_path }]
    });
    return new TPUClient(server.settings).visitApp('a1', {});
  }

  afterEach(() => vi.unstubAllGlobals());

  it('is its own where the browser reaches it', async () => {
    vi.stubGlobal('fetch', () => Promise.resolve(new Response()));
    for (const path of ['', 'jupyter-tpu/proxy/z~a/0/80/']) {
      expect(await reachableAddress(await visit(path), HERE)).toBe(url);
    }
  });

  it('is beneath Jupyter’s where that is allowed and reached alone', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no network')));
    const allowed = await visit('jupyter-tpu/proxy/z~a/0/80/deep?a=1');
    for (const place of [HERE, HUB]) {
      expect(await reachableAddress(allowed, place)).toBe(
        'http://localhost/hub/jupyter-tpu/proxy/z~a/0/80/deep?a=1'
      );
    }
  });

  it('is none where neither is reached, which is said', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no network')));
    const refused = await visit('');
    for (const [place, word] of [
      [HERE, '4321'],
      [HUB, 'hub.example.org']
    ] as const) {
      await expect(reachableAddress(refused, place)).rejects.toThrow(word);
    }
  });
});

import { KernelMessage, ServerConnection } from '@jupyterlab/services';
import { afterEach, expect, it, vi } from 'vitest';

import {
  ConnectionProblem,
  IReplayOffer,
  KernelReplay
} from '../kernels/replay';
import { KernelStatus, replayingSocket } from '../kernels/socket';

const URL = 'ws://localhost/api/kernels/k/channels?session_id=me';
const { serializer } = ServerConnection.makeSettings();
const V1 = 'v1.kernel.websocket.jupyter.org';

/** Sockets that do what the test says. */
class TestSocket {
  static made: TestSocket[] = [];
  onopen: ((event: Event) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  sent: (string | ArrayBuffer)[] = [];
  protocol = V1;

  constructor(
    readonly url: string,
    readonly protocols?: string | string[]
  ) {
    TestSocket.made.push(this);
  }

  send(data: string | ArrayBuffer): void {
    this.sent.push(data);
  }

  close(): void {}

  open(
    at: number,
    requests: object[] = [],
    lost: string[] = [],
    unwritten?: object[]
  ): void {
    this.onopen?.(new Event('open'));
    this.say({ at, requests, lost, unwritten });
  }

  refuse(code = 1006): void {
    this.onclose?.(new CloseEvent('close', { code }));
  }

  say(control: object): void {
    const data = JSON.stringify({ jupyter_tpu: control });
    this.onmessage?.(new MessageEvent('message', { data }));
  }

  /** A line of output as our server sends it. */
  bring(number: number, parent = 'r', replayed = false): void {
    const content = { name: 'stdout', text: `${number}\n` };
    this.deliver('iopub', 'stream', content, parent, { number, replayed });
  }

  /** The reply to `r`. */
  reply(number: number): void {
    const content = { status: 'ok', execution_count: 1 };
    this.deliver('shell', 'execute_reply', content, 'r', { number });
  }

  /** The beginning of a cell that a client runs. */
  begin(number: number, session: string, parent: string, cell: string): void {
    const content = { code: '', execution_count: 1 };
    const sequence = { number, cell };
    this.deliver('iopub', 'execute_input', content, parent, sequence, session);
  }

  /** An `input()` of a request. */
  ask(number: number, parent: string): void {
    const content = { prompt: '', password: false };
    this.deliver('stdin', 'input_request', content, parent, { number });
  }

  private deliver(
    channel: string,
    msgType: string,
    content: object,
    parent: string,
    sequence: { number: number; replayed?: boolean; cell?: string },
    session = 'me'
  ): void {
    const message = KernelMessage.createMessage({
      msgType,
      channel,
      session: 'kernel',
      msgId: `${channel}-${sequence.number}`,
      content,
      parentHeader: { msg_id: parent, session }
    } as never);
    const metadata = { jupyter_tpu: { replayed: false, ...sequence } };
    const data = serializer.serialize({ ...message, metadata } as never, V1);
    this.onmessage?.(new MessageEvent('message', { data }));
  }
}

function page(status: KernelStatus | (() => KernelStatus) = 'found') {
  const replay = new KernelReplay();
  replay.mayRunOnTPU = kernelId => kernelId === 'k';
  const shown: string[] = [];
  const closes: number[] = [];
  const problems: (ConnectionProblem | null)[] = [];
  replay.connectionChanged.connect((_, { problem }) => {
    problems.push(problem);
  });
  const SocketClass = replayingSocket(TestSocket as never, {
    replay,
    lookUp: async () => (typeof status === 'function' ? status() : status)
  });
  const connect = (url = URL, protocols = [V1]) => {
    const socket = new SocketClass(url, protocols);
    socket.onmessage = ({ data }) => {
      const message = serializer.deserialize(data as ArrayBuffer, V1);
      shown.push(
        (message.content as { text?: string }).text?.trim() ?? 'reply'
      );
    };
    socket.onclose = ({ code }) => closes.push(code);
    return socket;
  };
  return { replay, shown, closes, problems, connect };
}

const last = () => TestSocket.made[TestSocket.made.length - 1];

/** What the server was told. */
const told = () =>
  last().sent.map(text => JSON.parse(text as string).jupyter_tpu as object);

afterEach(() => {
  TestSocket.made = [];
  vi.useRealTimers();
});

it('leaves the sockets of other kernels and services alone', () => {
  const { connect } = page();
  for (const url of [
    URL.replace('kernels/k/', 'kernels/other/'),
    'ws://localhost/api/events/subscribe'
  ]) {
    expect(connect(url)).toBeInstanceOf(TestSocket);
    expect(last().url).toBe(url);
  }
});

it('hands on each message once, whatever the server sends again', () => {
  const { connect, shown } = page();
  connect();
  expect(last().url).toBe(`${URL}&jupyter_tpu_seen=&jupyter_tpu_server=`);
  last().open(3);
  [4, 5, 6].forEach(number => last().bring(number));
  last().refuse();
  connect();
  expect(last().url).toBe(`${URL}&jupyter_tpu_seen=6&jupyter_tpu_server=`);
  last().open(6);
  [5, 6, 7].forEach(number => last().bring(number));
  expect(shown).toEqual(['4', '5', '6', '7']);
});

it('acknowledges what came, in time', () => {
  vi.useFakeTimers();
  const { connect } = page();
  connect();
  last().open(0);
  last().bring(1);
  expect(told()).toEqual([]);
  vi.advanceTimersByTime(200);
  expect(told()).toEqual([{ seen: 1 }]);
  for (let number = 2; number <= 65; number++) {
    last().bring(number);
  }
  expect(told()[1]).toEqual({ seen: 65 });
});

it('stays connecting while there is no server, and is there soon after it', async () => {
  vi.useFakeTimers();
  const { connect, closes } = page('found');
  const socket = connect();
  last().refuse();
  expect(closes).toEqual([]);
  expect(socket.readyState).toBe(0);
  await vi.advanceTimersByTimeAsync(200);
  expect(TestSocket.made.length).toBe(2);
  last().open(0);
  expect(socket.readyState).toBe(1);
});

it('tells JupyterLab when the server has no such kernel', async () => {
  vi.useFakeTimers();
  const { connect, closes } = page('missing');
  connect();
  last().refuse();
  await vi.advanceTimersByTimeAsync(200);
  expect(closes).toEqual([1006]);
  expect(TestSocket.made.length).toBe(1);
});

it('says that websockets are blocked, and disconnects, when only they fail', async () => {
  vi.useFakeTimers();
  const { connect, closes, problems } = page('found');
  const socket = connect();
  for (let second = 0; second < 30 && closes.length === 0; second++) {
    last().refuse();
    await vi.advanceTimersByTimeAsync(2000);
  }
  expect(TestSocket.made.length).toBe(16);
  // JupyterLab does not retry after 1000, and shows "disconnected".
  expect(closes).toEqual([1000]);
  expect(socket.readyState).toBe(3);
  expect(problems).toEqual(['blocked']);
  // The user reconnects. JupyterLab then offers no protocol, but the frames are the same.
  connect(URL, []);
  expect(last().protocols).toBe(V1);
  last().open(0);
  expect(problems).toEqual(['blocked', null]);
});

it('says that the page is not logged in, and connects once it is', async () => {
  vi.useFakeTimers();
  let status: KernelStatus = 'denied';
  const { connect, closes, problems } = page(() => status);
  connect();
  last().refuse();
  await vi.advanceTimersByTimeAsync(60_000);
  // A close would make JupyterLab take the kernel for dead.
  expect(closes).toEqual([]);
  expect(TestSocket.made.length).toBe(1);
  expect(problems).toEqual(['denied']);
  status = 'found';
  await vi.advanceTimersByTimeAsync(2000);
  last().open(0);
  expect(problems).toEqual(['denied', null]);
});

it('does not call a server that is away a problem, however long', async () => {
  vi.useFakeTimers();
  let status: KernelStatus = 'unavailable';
  const { connect, problems } = page(() => status);
  connect();
  last().refuse();
  await vi.advanceTimersByTimeAsync(600_000);
  expect(problems).toEqual([]);
  status = 'found';
  await vi.advanceTimersByTimeAsync(2000);
  expect(TestSocket.made.length).toBe(2);
});

it('does not take a server that goes away for an end', () => {
  const { connect, closes } = page();
  connect();
  last().open(0);
  last().refuse(1001);
  expect(closes).toEqual([1006]);
});

/** The request `r` of another page, as JupyterLab sends it again. */
const request = serializer.serialize(
  KernelMessage.createMessage<KernelMessage.IExecuteRequestMsg>({
    msgType: 'execute_request',
    channel: 'shell',
    session: 'me',
    msgId: 'r',
    content: { code: '' }
  }),
  V1
) as ArrayBuffer;
const offered = { id: 'r', cell: 'c', count: null };

it('shows a request that it asked for again whole and in order, over breaks too', () => {
  const { connect, shown, replay } = page();
  const offers: string[] = [];
  replay.offered.connect((_, { clientId, requests }: IReplayOffer) => {
    offers.push(clientId, ...requests.map(({ id }) => id));
  });
  const first = connect();
  last().open(10, [offered]);
  expect(offers).toEqual(['me', 'r']);
  // Before the notebook is there, and before the server sees that it is asked.
  last().bring(11);
  first.send(request);
  last().bring(12);
  expect(told()).toEqual([{ repeat: { r: 0 }, shown: true }]);
  [8, 9].forEach(number => last().bring(number, 'r', true));
  last().refuse();

  connect();
  last().open(12);
  expect(told()).toEqual([{ repeat: { r: 9 }, shown: true }]);
  [10, 11, 12].forEach(number => last().bring(number, 'r', true));
  last().say({ replayed: 'r' });
  [13, 14].forEach(number => last().bring(number));
  expect(shown).toEqual(['8', '9', '10', '11', '12', '13', '14']);
});

it('stays the follower of a request over breaks, until its reply has come', () => {
  const { connect, shown } = page();
  const socket = connect();
  last().open(10, [offered]);
  socket.send(request);
  last().say({ replayed: 'r' });
  last().bring(11);
  last().refuse();
  connect();
  last().open(11);
  expect(told()).toEqual([{ repeat: { r: 11 }, shown: true }]);
  last().bring(12); // in the repetition, too
  last().bring(12, 'r', true);
  last().say({ replayed: 'r' });
  last().reply(13);
  last().refuse();
  connect();
  last().open(13);
  expect(told()).toEqual([]);
  expect(shown).toEqual(['11', '12', 'reply']);
});

it('hands on what belongs to no cell of it, once that is known', () => {
  const { connect, shown, replay } = page();
  connect();
  last().open(10, [offered]);
  last().bring(11);
  last().bring(12, 'another');
  replay.decline('me', 'r');
  expect(told()).toEqual([{ repeat: { r: 10 }, shown: false }]);
  last().bring(13);
  [11, 13].forEach(number => last().bring(number, 'r', true));
  last().say({ replayed: 'r' });
  last().bring(14);
  expect(shown).toEqual(['12', '11', '13', '14']);
});

it('offers a cell that another client begins to run, if this page shows it', () => {
  const { connect, shown, replay } = page();
  const offers: string[] = [];
  replay.offered.connect((_, { requests }: IReplayOffer) => {
    offers.push(...requests.map(({ cell, id }) => `${id} ${cell}`));
  });
  replay.isFree = (client, cell) => client === 'me' && cell === 'c';
  const socket = connect();
  last().open(10);
  last().begin(11, 'me', 'mine', 'c');
  last().begin(12, 'other', 'elsewhere', 'no cell of it');
  expect(offers).toEqual([]);
  last().begin(13, 'other', 'r', 'c');
  last().bring(14); // in the repetition, too
  expect(offers).toEqual(['r c']);
  socket.send(request);
  expect(told()).toEqual([{ repeat: { r: 0 }, shown: true }]);
  last().bring(14, 'r', true);
  last().say({ replayed: 'r' });
  last().bring(15);
  expect(shown).toEqual(['reply', 'reply', '14', '15']);
});

it('fills a cell of a shared document when the server says so, and no longer when another page does', () => {
  const { connect, shown, replay } = page();
  const granted: string[] = [];
  const lost: string[] = [];
  replay.granted.connect((_, { requests: [{ id }] }) => {
    granted.push(id);
  });
  replay.lost.connect((_, { id }) => {
    lost.push(id);
  });
  connect();
  last().open(10, [offered]);
  replay.wait('me', offered);
  last().bring(9, 'r', true);
  last().say({ replayed: 'r' });
  expect(told()).toEqual([{ repeat: { r: 0 }, shown: false }, { fill: 'r' }]);
  last().bring(11); // JupyterLab has no cell for it
  last().refuse();
  const second = connect();
  last().open(11);
  expect(told()).toEqual([{ fill: 'r' }]);
  last().say({ fill: 'r' });
  expect(granted).toEqual(['r']);
  last().bring(12);
  second.send(request);
  [9, 10, 11, 12].forEach(number => last().bring(number, 'r', true));
  last().say({ replayed: 'r' });
  last().bring(13);
  expect(shown).toEqual(['11', '9', '10', '11', '12', '13']);
  last().refuse();
  connect();
  last().open(13, [], ['r']);
  expect(lost).toEqual(['r']);
});

it('asks again who writes a shared cell, when the next server’s document is there', () => {
  const { connect, shown, replay } = page();
  replay.unwritten.connect((_, { requests }) => {
    requests.forEach(request => replay.suspend('me', request));
  });
  connect();
  last().open(10);
  last().bring(11); // this page runs the cell, and has written this
  last().refuse();
  const second = connect();
  last().open(11, [], [], [offered]);
  last().bring(12); // the document is not there
  expect(told()).toEqual([]);
  replay.resume('me', offered);
  last().bring(12, 'r', true);
  last().say({ replayed: 'r' });
  expect(told()).toEqual([{ repeat: { r: 11 }, shown: false }, { fill: 'r' }]);
  last().say({ fill: 'r' });
  second.send(request);
  [11, 12].forEach(number => last().bring(number, 'r', true));
  last().say({ replayed: 'r' });
  last().bring(13);
  expect(shown).toEqual(['11', '12', '11', '12', '13']);
});

it('closes the input box of a request that another page has answered, or that has ended', () => {
  const { connect, replay } = page();
  const ended: string[] = [];
  replay.inputEnded.connect((_, { id }) => {
    ended.push(id);
  });
  connect();
  last().open(0);
  last().ask(1, 'r');
  last().say({ answered: 'another question' });
  expect(ended).toEqual([]);
  last().say({ answered: 'stdin-1' });
  expect(ended).toEqual(['r']);
  last().ask(2, 'r');
  last().reply(3);
  expect(ended).toEqual(['r', 'r']);
});

it('gives up a request that the server no longer knows', () => {
  const { connect, replay } = page();
  const missing: string[] = [];
  replay.lost.connect((_, lost) => {
    missing.push(...(lost.missing ? [lost.id] : []));
  });
  const socket = connect();
  last().open(10, [offered]);
  socket.send(request);
  last().say({ replayed: 'r', missing: true });
  expect(missing).toEqual(['r']);
});

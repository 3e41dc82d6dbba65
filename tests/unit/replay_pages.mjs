// The pages of test_adoption_replay.py: the page's own code (labextension/src/kernels) on websockets
// that do what the test says, and of JupyterLab only what matters here: it handles messages later
// than they come, gives output to the cell that waits for it, and sends late.
//
// One command per line of standard input, one answer per line of standard output.

import { createInterface } from 'node:readline';

import { KernelReplay } from '../../labextension/src/kernels/replay';
import { replayingSocket } from '../../labextension/src/kernels/socket';

globalThis.CloseEvent ??= class extends Event {
  constructor(type, { code }) {
    super(type);
    this.code = code;
  }
};

const pages = new Map();
/** The output that all pages of a shared document show. */
let shared = { lines: [], count: null };
/** What a server that has ended had saved of it; null: all pages show what the server has. */
let saved = null;

/** The next server has loaded the document. */
function load() {
  shared = saved ?? shared;
  saved = null;
}

class TestSocket {
  constructor(url) {
    this.url = url;
    this.sent = [];
    this.protocol = 'v1.kernel.websocket.jupyter.org';
  }
  send(data) {
    this.sent.push(
      typeof data === 'string'
        ? { text: data }
        : { frame: Buffer.from(data).toString('base64') }
    );
  }
  close() {}
}

class Page {
  constructor(clientId, isShared) {
    this.clientId = clientId;
    this.isShared = isShared;
    this.own = { lines: [], count: null };
    this.queue = []; // messages that JupyterLab has not handled yet
    this.cells = new Map(); // of requests, while their output is awaited
    this.shown = new Set(); // requests whose output a cell shows, also after their end
    this.toSend = [];
    this.offers = [];
    this.widget = [];
    this.unwritten = [];
    if (isShared) {
      load();
    }
    this.replay = new KernelReplay();
    this.replay.offered.connect((_, { requests }) => {
      this.offers.push(...requests);
    });
    this.replay.granted.connect((_, { requests: [{ id }] }) => {
      this.handle();
      this.fill(id);
    });
    this.replay.unwritten.connect((_, { requests }) => {
      for (const request of isShared ? requests : []) {
        this.cells.delete(request.id);
        this.shown.delete(request.id);
        this.replay.suspend(this.clientId, request);
        this.unwritten.push(request);
      }
    });
    this.replay.lost.connect((_, { id, missing }) => {
      this.cells.delete(id);
      if (this.shown.delete(id) && !missing) {
        this.replay.wait(this.clientId, { id, cell: 'c', count: null });
      }
    });
    const page = this;
    this.Socket = replayingSocket(
      class extends TestSocket {
        constructor(url) {
          super(url);
          page.socket = this;
        }
      },
      { replay: this.replay, lookUp: async () => 'found' }
    );
  }

  connect() {
    this.facade?.close();
    const url = `ws://x/api/kernels/k/channels?session_id=${this.clientId}`;
    this.facade = new this.Socket(url, []);
    this.facade.onmessage = ({ data }) => this.queue.push(data);
    this.facade.onclose = () => undefined;
    this.socket.onopen(new Event('open'));
    return Object.fromEntries(new URL(this.socket.url).searchParams);
  }

  receive({ text, frame }) {
    let data = text;
    if (frame !== undefined) {
      const bytes = Buffer.from(frame, 'base64');
      data = bytes.buffer.slice(
        bytes.byteOffset,
        bytes.byteOffset + bytes.byteLength
      );
    }
    this.socket.onmessage(new MessageEvent('message', { data }));
  }

  get document() {
    return this.isShared ? shared : this.own;
  }

  fill(id) {
    this.document.lines = [];
    this.cells.set(id, {});
    this.shown.add(id);
    this.toSend.push(id);
  }

  decide() {
    if (this.isShared) {
      load();
    }
    for (const { id } of this.offers.splice(0)) {
      if (this.isShared) {
        this.replay.wait(this.clientId, { id, cell: 'c', count: null });
      } else {
        this.fill(id);
      }
    }
  }

  /** The shared document is the server's. */
  sync() {
    load();
    for (const request of this.unwritten.splice(0)) {
      this.replay.resume(this.clientId, request);
    }
  }

  /** Sends what was to be sent: the request of a cell. */
  flush() {
    for (const id of this.toSend.splice(0)) {
      this.facade.send(
        encode('shell', { msg_id: id, msg_type: 'execute_request' })
      );
    }
  }

  /** Runs a cell. */
  run(id) {
    this.document.lines = [];
    this.cells.set(id, {});
    this.shown.add(id);
    const header = { msg_id: id, msg_type: 'execute_request' };
    this.facade.send(
      encode('shell', { ...header, session: this.clientId }, { cellId: 'c' })
    );
  }

  /** Answers an input_request. */
  answer(id) {
    const header = { msg_id: `answer-${id}`, msg_type: 'input_reply' };
    this.facade.send(encode('stdin', header, {}, { msg_id: id }));
  }

  /** Says what it has seen: that is usually done after a time. */
  acknowledge() {
    this.facade._acknowledgeNow();
  }

  /** How many messages JupyterLab has not handled. */
  unhandled() {
    return this.queue.length;
  }

  /** JupyterLab handles what has come. */
  handle() {
    for (const data of this.queue.splice(0)) {
      const { channel, header, parent, content } = decode(data);
      const cell = this.cells.get(parent.msg_id);
      if (header.msg_type === 'comm_msg') {
        this.widget.push(content.data);
      }
      if (cell) {
        if (header.msg_type === 'stream') {
          this.document.lines.push(...content.text.split('\n').slice(0, -1));
        }
        cell.replied ||= channel === 'shell';
        cell.idle ||= content.execution_state === 'idle';
        if (cell.replied && cell.idle) {
          this.cells.delete(parent.msg_id);
          this.document.count = 1;
        }
      }
    }
  }
}

function encode(channel, header, metadata = {}, parent = {}) {
  const parts = [header, parent, metadata, {}].map(part => JSON.stringify(part));
  const bytes = [channel, ...parts].map(part => Buffer.from(part));
  const offsets = new BigUint64Array(bytes.length + 2);
  offsets[0] = BigInt(bytes.length + 1);
  offsets[1] = BigInt(8 * offsets.length);
  bytes.forEach((part, index) => {
    offsets[index + 2] = offsets[index + 1] + BigInt(part.length);
  });
  const all = Buffer.concat([Buffer.from(offsets.buffer), ...bytes]);
  return all.buffer.slice(all.byteOffset, all.byteOffset + all.byteLength);
}

function decode(data) {
  const view = new DataView(data);
  const at = index => Number(view.getBigUint64(8 * (index + 1), true));
  const [channel, header, parent, , content] = [0, 1, 2, 3, 4].map(index =>
    Buffer.from(data.slice(at(index), at(index + 1))).toString()
  );
  return {
    channel,
    header: JSON.parse(header),
    parent: JSON.parse(parent),
    content: JSON.parse(content)
  };
}

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const { page: name, do: act, argument } = JSON.parse(line);
    let result = null;
    if (act === 'reset') {
      pages.clear();
      shared = { lines: [], count: null };
      saved = null;
    } else if (act === 'save') {
      const { lines, count } = saved ?? shared;
      const all = argument >= lines.length;
      saved = { lines: lines.slice(0, argument), count: all ? count : null };
    } else if (act === 'open') {
      pages.set(name, new Page(name, argument));
    } else {
      const page = pages.get(name);
      if (act === 'result') {
        result = {
          ...page.document,
          waiting: page.cells.size,
          widget: page.widget
        };
      } else {
        result = page[act](argument) ?? null;
      }
    }
    const sent = pages.get(name)?.socket?.sent.splice(0) ?? [];
    console.log(JSON.stringify({ result, sent }));
  }
}

void main();

// The windows of VS Code in test_adoption_replay.py: the extension's own code
// (vscode/src/notebook/journalSocket.ts) on websockets that do what the test says. A window shows a
// cell's output as it comes; it has no document that others share.
//
// The commands are those of replay_pages.mjs.

import { createInterface } from 'node:readline';

import { JournalSocket } from '../../vscode/src/notebook/journalSocket';
import { createMessage } from '../../vscode/src/notebook/wire';

// Time stands still: what happens is what the test says. The sockets of the examples before would
// connect again.
globalThis.setTimeout = () => 0;
globalThis.clearTimeout = () => undefined;

const windows = new Map();
/** The window whose code runs. */
let current;

globalThis.WebSocket = class extends EventTarget {
  constructor(url) {
    super();
    this.url = url;
    this.sent = [];
    current.socket = this;
  }
  send(data) {
    this.sent.push(
      typeof data === 'string'
        ? { text: data }
        : { frame: Buffer.from(data).toString('base64') }
    );
  }
  close() {}
};

class Window {
  lines = [];
  count = null;
  runs = new Set(); // whose end is awaited
  widget = [];

  constructor(client) {
    this.client = client;
  }

  connect() {
    if (this.journal) {
      // It broke: the end of what the test had is not always noticed before.
      this.journal._drop();
      this.journal.reconnect();
    } else {
      this.journal = new JournalSocket(
        {
          kernel: 'k',
          client: this.client,
          server: () => ({ url: 'http://x/', token: '', pid: 0 }),
          lookUp: async () => 'found',
          search: async () => undefined
        },
        {
          onMessage: message => this.show(message),
          onOffer: requests => requests.forEach(({ id }) => this.takeUp(id)),
          onUnknown: (id, hadIt) => {
            if (hadIt) {
              throw new Error(`${id} is lost`);
            }
            this.journal.execute(this.request);
          },
          onAnswered: () => undefined,
          onConnection: () => undefined,
          onGone: () => undefined
        }
      );
    }
    return Object.fromEntries(new URL(this.socket.url).searchParams);
  }

  receive({ frame, text }) {
    let data = text;
    if (frame !== undefined) {
      const bytes = Buffer.from(frame, 'base64');
      data = bytes.buffer.slice(
        bytes.byteOffset,
        bytes.byteOffset + bytes.byteLength
      );
    }
    this.socket.dispatchEvent(new MessageEvent('message', { data }));
  }

  begin(id) {
    this.lines = [];
    this.runs.add(id);
  }

  run(id) {
    this.begin(id);
    this.request = createMessage(
      'execute_request',
      this.client,
      {},
      { id, metadata: { cellId: 'c' } }
    );
    this.journal.execute(this.request);
  }

  takeUp(id) {
    this.begin(id);
    this.journal.follow(id);
  }

  show({ channel, content, header, parent_header: { msg_id } }) {
    if (header.msg_type === 'comm_msg') {
      return;
    }
    if (!this.runs.has(msg_id)) {
      return;
    }
    if (header.msg_type === 'stream') {
      this.lines.push(...content.text.split('\n').slice(0, -1));
    }
    this.replied ||= channel === 'shell';
    this.idle ||= content.execution_state === 'idle';
    if (this.replied && this.idle) {
      this.runs.delete(msg_id);
      this.journal.forget(msg_id);
      this.count = 1;
    }
  }

  acknowledge() {
    this.journal._acknowledgeNow();
  }

  result() {
    const { count, lines, runs, widget } = this;
    return { count, lines, waiting: runs.size, widget };
  }

  // What only a page does.
  decide() {}
  sync() {}
  flush() {}
  handle() {}
  unhandled() {
    return 0;
  }
}

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const { page: name, do: act, argument } = JSON.parse(line);
    let result = null;
    if (act === 'reset') {
      windows.clear();
    } else if (act === 'open') {
      windows.set(name, new Window(name));
    } else if (act !== 'save') {
      current = windows.get(name);
      result = current?.[act](argument) ?? null;
    }
    const sent = windows.get(name)?.socket?.sent.splice(0) ?? [];
    console.log(JSON.stringify({ result, sent }));
  }
}

void main();

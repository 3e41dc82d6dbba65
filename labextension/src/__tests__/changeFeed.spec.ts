import { EventManager, ServerConnection } from '@jupyterlab/services';
import { afterEach, expect, it, vi } from 'vitest';

import { loadCatalogue } from '../language/translation';
import { observedSocket, ServerChangeFeed } from '../model/changeFeed';
import { CHANGE_SCHEMA } from '../rest/changeSchema';
import { IChange } from '../rest/api';

/** Sockets that open, close and bring messages when the test says so. */
class TestSocket extends EventTarget {
  static made: TestSocket[] = [];
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: Event) => void) | null = null;

  constructor(readonly url: string) {
    super();
    TestSocket.made.push(this);
  }

  open(): void {
    this.dispatchEvent(new Event('open'));
  }

  close(): void {
    const event = new Event('close');
    this.dispatchEvent(event);
    this.onclose?.(event);
  }

  bring(event: object): void {
    const data = JSON.stringify(event);
    this.onmessage?.(new MessageEvent('message', { data }));
  }
}

afterEach(() => {
  TestSocket.made = [];
});

async function aSocket(count = 1): Promise<TestSocket> {
  await vi.waitFor(() => expect(TestSocket.made.length).toBe(count), 10000);
  return TestSocket.made[count - 1];
}

function changes(): ServerChangeFeed {
  const settings = ServerConnection.makeSettings({
    wsUrl: 'ws://localhost/hub/',
    WebSocket: TestSocket as never
  });
  return new ServerChangeFeed({ serverSettings: settings } as never, settings);
}

it('has no socket of its own beside the application’s', async () => {
  const settings = ServerConnection.makeSettings({
    WebSocket: observedSocket(TestSocket as never)
  });
  const events = new EventManager({ serverSettings: settings });
  const first = new ServerChangeFeed(events, settings);
  const second = new ServerChangeFeed(events, settings);
  (await aSocket()).open();
  expect([first.connected, second.connected]).toEqual([true, true]);
  expect(TestSocket.made.length).toBe(1);
  first.dispose();
  expect(events.isDisposed).toBe(false);
  events.dispose();
});

it('has one of its own for another language, since the application’s was opened before that is known', async () => {
  const settings = ServerConnection.makeSettings({
    wsUrl: 'ws://localhost/hub/',
    WebSocket: observedSocket(TestSocket as never)
  });
  const events = new EventManager({ serverSettings: settings });
  (await aSocket()).open();
  loadCatalogue({}, 'zh-CN');
  const source = new ServerChangeFeed(events, settings);
  loadCatalogue({}, 'en');
  expect(source.connected).toBe(false);
  const own = await aSocket(2);
  expect(own.url).toBe(
    'ws://localhost/hub/api/events/subscribe?language=zh-CN'
  );
  own.open();
  expect(source.connected).toBe(true);
  source.dispose();
  events.dispose();
});

it('passes on the changes of its schema only', async () => {
  const source = changes();
  const seen: IChange[] = [];
  source.changed.connect((_, change) => {
    seen.push(change);
  });
  const socket = await aSocket();
  expect(socket.url).toBe('ws://localhost/hub/api/events/subscribe');
  socket.bring({ schema_id: 'https://elsewhere.org/v1', id: 'a' });
  socket.bring({ schema_id: CHANGE_SCHEMA, id: 'b' });
  expect(seen.map(change => change.id)).toEqual(['b']);
  source.dispose();
});

it('says when changes flow, no longer flow, and flow again', async () => {
  const source = changes();
  const connected: boolean[] = [];
  source.connectedChanged.connect((_, now) => {
    connected.push(now);
  });
  (await aSocket()).open();
  TestSocket.made[0].close();
  (await aSocket(2)).open();
  expect(connected).toEqual([true, false, true]);
  source.dispose();
  expect(source.isDisposed).toBe(true);
}, 15000);

import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { NodeClient, openSocket } from '../src/client';
import { isOwn, isTaken } from '../src/portOwner';

const NOBODY = 65534;
/** Says its port, and then all that it gets. */
const LISTENER = `
  const server = require('node:net').createServer(socket =>
    socket.on('data', data => process.stdout.write(data))
  );
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;

/** A listener of another user; its output in `received`. */
async function foreign(): Promise<{
  port: number;
  listener: ChildProcess;
  received: () => string;
}> {
  const listener = spawn(process.execPath, ['-e', LISTENER], {
    cwd: '/',
    uid: NOBODY
  });
  let text = '';
  listener.stdout.on('data', part => (text += part));
  await once(listener.stdout, 'data');
  return { port: parseInt(text), listener, received: () => text };
}

it('is the server of this user as long as its process runs', async () => {
  const server = createServer((_, response) => response.end('{}'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/`;
  const { pid } = process;
  expect(isOwn({ url, pid })).toBe(true);
  expect(isOwn({ url, pid: 0 })).toBe(true);
  const ended = { url, pid: 2 ** 22 + 1 };
  expect([isOwn(ended), isTaken(ended)]).toEqual([false, false]);
  await new NodeClient({ url, token: 't', pid }).jupyter('GET', 'status');
  server.close();
  server.closeAllConnections();
  expect(isTaken({ url, pid }, ['/nowhere'])).toBe(false); // not Linux
});

// To be another user takes root.
it.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)(
  'sends nothing to another user who listens at its address',
  async () => {
    const { listener, port, received } = await foreign();
    const { pid } = process;
    const server = { url: `http://127.0.0.1:${port}/`, token: 'secret', pid };
    expect(isOwn(server)).toBe(false);
    expect(isTaken(server)).toBe(true);
    const client = new NodeClient(server);
    await expect(client.jupyter('GET', 'status')).rejects.toMatchObject({
      reason: 'NETWORK'
    });
    expect(openSocket(server, 'api/events/subscribe', {})).toBeNull();
    listener.kill();
    await once(listener, 'close');
    expect(received()).toBe(`${port}\n`);
  }
);

describe('whose listener answers', () => {
  const own = process.getuid?.() ?? 0;
  const other = own + 1000;
  const table = join(mkdtempSync(join(tmpdir(), 'port-owner-')), 'tcp');

  /** Whether another user answers at *url* with these listeners at port 8888. */
  function taken(url: string, pid: number, ...listeners: [string, number][]) {
    const lines = listeners.map(
      ([address, uid], place) =>
        `   ${place}: ${address}:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  ${uid}        0 1 1`
    );
    writeFileSync(table, ['  sl  local_address', ...lines, ''].join('\n'));
    return isTaken({ url, pid }, [table]);
  }

  it.each([
    ['at another address', '127.0.0.1', [['0200007F', 1]], false],
    [
      'beside an own one',
      '127.0.0.1',
      [
        ['0100007F', 0],
        ['00000000', 1]
      ],
      false
    ],
    ['at all addresses', '127.0.0.1', [['00000000', 1]], true],
    [
      'by IPv6',
      'localhost',
      [
        ['0100007F', 0],
        ['00000000000000000000000001000000', 1]
      ],
      true
    ],
    [
      'by IPv6',
      '127.0.0.1',
      [
        ['0100007F', 0],
        ['00000000000000000000000001000000', 1]
      ],
      false
    ],
    ['anywhere', 'host.example', [['0200007F', 1]], true]
  ] as [string, string, [string, number][], boolean][])(
    'another user’s %s, for %s',
    (_, host, listeners, isOther) => {
      const all = listeners.map(
        ([address, who]) => [address, who ? other : own] as [string, number]
      );
      expect(taken(`http://${host}:8888/`, 1, ...all)).toBe(isOther);
    }
  );

  it('may be another user’s where the address was typed, but not change', () => {
    const url = 'http://127.0.0.1:8888/typed/';
    expect(taken(url, 0, ['0100007F', other])).toBe(false);
    expect(taken(url, 0, ['0100007F', other + 1])).toBe(true);
    expect(taken(url, 0, ['0100007F', other])).toBe(false);
    expect(taken('http://host.example:8888/', 0, ['00000000', other])).toBe(
      false
    );
  });
});

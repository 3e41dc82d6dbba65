import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';

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
  expect(isOwn({ url, token: 't', pid })).toBe(true);
  expect(isOwn({ url, token: 't', pid: 0 })).toBe(true);
  const ended = { url, token: 't', pid: 2 ** 22 + 1 };
  expect([isOwn(ended), isTaken(ended)]).toEqual([false, false]);
  await new NodeClient({ url, token: 't', pid }).jupyter('GET', 'status');
  server.close();
  server.closeAllConnections();
  expect(isTaken({ url, token: 't', pid }, ['/nowhere'])).toBe(false); // not Linux
});

// To be another user takes root.
it.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)(
  'sends nothing to another user who listens at its address',
  async () => {
    const { listener, port, received } = await foreign();
    for (const pid of [process.pid, 0]) {
      const server = { url: `http://127.0.0.1:${port}/`, token: 'secret', pid };
      expect(isOwn(server)).toBe(false);
      expect(isTaken(server)).toBe(true);
      const client = new NodeClient(server);
      await expect(client.jupyter('GET', 'status')).rejects.toMatchObject({
        reason: 'NETWORK'
      });
      expect(openSocket(server, 'api/events/subscribe', {})).toBeNull();
      expect(isOwn({ ...server, url: `http://example.org:${port}/` })).toBe(
        pid === 0
      );
    }
    listener.kill();
    await once(listener, 'close');
    expect(received()).toBe(`${port}\n`);
  }
);

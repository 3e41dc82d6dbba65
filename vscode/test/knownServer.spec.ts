import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';

import { KnownServer } from '../src/knownServer';

it('knows the server of last time while that runs, without storing its token', async () => {
  const stored = new Map<string, unknown>();
  const known = new KnownServer({
    get: <T>(key: string) => stored.get(key) as T | undefined,
    update: async (key, value) => void stored.set(key, value)
  });
  const file = join(mkdtempSync(join(tmpdir(), 'tpu-')), 'jpserver.json');
  const { pid } = process;
  const server = { url: 'http://127.0.0.1:1/', token: 'secret', pid, file };
  writeFileSync(file, JSON.stringify({ pid, token: 'secret' }));
  expect(await known.read('python')).toBeNull();
  await known.keep('python', server);
  expect(JSON.stringify([...stored])).not.toContain('secret');
  expect(await known.read('python')).toMatchObject(server);
  expect(await known.read('another python')).toBeNull();
  const changed = vi.fn();
  const unwatch = known.watch(changed);
  writeFileSync(file, JSON.stringify({ pid: pid + 1, token: 'other' }));
  expect(await known.read('python')).toBeNull();
  await expect.poll(() => changed.mock.calls.length).toBe(1);
  unwatch();
  rmSync(file);
  expect(await known.read('python')).toBeNull();
});

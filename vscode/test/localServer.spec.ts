import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { findServer, installer, judge, succeeds } from '../src/localServer';

const url = 'http://127.0.0.1:8888/';

/** A program that says and does what a Python would. */
function program(script: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'tpu-')), 'python');
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

it('asks the Python for its server, and starts one only if that is wanted', async () => {
  const python = program(
    'case "$*" in *--start*) echo \'{"url": "' +
      url +
      '", "token": "t", "pid": 1}\';; *) echo null;; esac'
  );
  expect(await findServer(python, false, process.env)).toEqual({
    state: 'stopped'
  });
  expect(await findServer(python, true, process.env)).toEqual({
    state: 'running',
    server: { url, token: 't', pid: 1 }
  });
});

it('tells apart a Python that is not there, has no jupyter-tpu, or an old one', async () => {
  const missing = program(
    'echo "/usr/bin/python: No module named jupyter_tpu" >&2; exit 1'
  );
  expect(await findServer(missing, true, {})).toEqual({ state: 'missing' });
  const old = program(
    'echo "jupyter tpu: No such command \'server\'." >&2; exit 2'
  );
  expect(await findServer(old, true, {})).toEqual({ state: 'old' });
  expect(await findServer('/nowhere/python', true, {})).toMatchObject({
    state: 'broken'
  });
});

it('imports nothing from the folder, and says so where a Python is too old for that', async () => {
  const python = program(
    'case "$1" in -P) echo null;; *) echo "the project\'s own select.py" >&2; exit 1;; esac'
  );
  expect(await findServer(python, false, process.env)).toEqual({
    state: 'stopped'
  });
  const [, args] = installer(python, true, false);
  expect(args.slice(0, 3)).toEqual(['-P', '-m', 'pip']);
  const old = program('echo "Unknown option: -P" >&2; exit 2');
  expect(await findServer(old, false, process.env)).toEqual({
    state: 'failed',
    message: 'jupyter-tpu needs Python 3.11 or newer.'
  });
});

it('passes on what went wrong, and does not believe what is no server', () => {
  expect(judge({ code: 1, stdout: '', stderr: 'x\nNo disk.\n' })).toEqual({
    state: 'failed',
    message: 'x No disk.'
  });
  for (const stdout of ['', 'hello', '{}', '{"url": "?", "token": "t"}']) {
    expect(judge({ code: 0, stdout, stderr: '' }).state).toBe('failed');
  }
});

it('installs with pip, else with uv, else says what is missing', () => {
  const last = (args: string[]) => args.slice(-2);
  const [pip, pipArgs] = installer('/env/python', true, true);
  expect([pip, ...last(pipArgs)]).toEqual([
    '/env/python',
    '--upgrade',
    'jupyter-tpu'
  ]);
  const [uv, uvArgs] = installer('/env/python', false, true);
  expect([uv, ...last(uvArgs)]).toEqual(['uv', '--upgrade', 'jupyter-tpu']);
  expect(uvArgs).toContain('/env/python');
  expect(() => installer('/env/python', false, false)).toThrow(
    '/env/python has no pip'
  );
});

it('knows whether a program can be run', async () => {
  expect(await succeeds(program('exit 0'), [], process.env)).toBe(true);
  expect(await succeeds(program('exit 3'), [], process.env)).toBe(false);
  expect(await succeeds('/nowhere/uv', [], process.env)).toBe(false);
});

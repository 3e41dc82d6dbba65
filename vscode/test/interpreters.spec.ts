import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { expect, it } from 'vitest';

import { interpreters } from '../src/interpreters';

const home = mkdtempSync(join(tmpdir(), 'interpreters-'));

/** A file in the home folder; returns its path. */
function make(path: string, text = ''): string {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

it('lists the Pythons of the folder, conda, pyenv, uv and PATH that are new enough, each once', async () => {
  const venv = make('work/.venv/bin/python');
  const conda = make('miniconda/envs/tpu/bin/python');
  make(
    '.conda/environments.txt',
    `${join(home, 'miniconda/envs/tpu')}\n${join(home, 'gone')}\n`
  );
  const pyenv = make('.pyenv/versions/3.12.1/bin/python');
  const uv = make('.local/share/uv/python/cpython-3.13/bin/python');
  make('.pyenv/versions/3.10.13/bin/python');
  make('.local/share/uv/python/cpython-3.9-linux/bin/python');
  const system = make('usr/bin/python3');
  const bin = join(home, 'usr/bin');
  symlinkSync(bin, join(home, 'bin'));
  const found = await interpreters({
    home,
    folders: [join(home, 'work')],
    environment: {
      PATH: `${bin}:${join(home, 'bin')}:${join(home, 'nothing')}`
    },
    windows: false,
    launcher: async () => ''
  });
  expect(found).toEqual([
    { from: '.venv', path: venv },
    { from: 'conda', path: conda },
    { from: 'pyenv', path: pyenv },
    { from: 'uv', path: uv },
    { from: 'PATH', path: system }
  ]);
});

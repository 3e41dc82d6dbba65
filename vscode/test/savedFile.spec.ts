import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { isComplete } from '../src/notebook/savedFile';

it('knows a file whose end could not be written, wherever it ends', async () => {
  const path = join(await mkdtemp(join(tmpdir(), 'saved-')), 'a.ipynb');
  const cell = { cell_type: 'code', metadata: {}, source: ['a = {}\n', '}'] };
  const notebook = { cells: [cell], metadata: { a: { b: {} } }, nbformat: 4 };
  for (const indent of [1, 2, 4]) {
    const text = `${JSON.stringify(notebook, undefined, indent)}\n`;
    for (let length = 0; length < text.length - 1; length++) {
      await writeFile(path, text.slice(0, length));
      expect(await isComplete(path), text.slice(0, length)).toBe(false);
    }
    await writeFile(path, text);
    expect(await isComplete(path)).toBe(true);
  }
  await writeFile(path, JSON.stringify(notebook)); // all in one line
  expect(await isComplete(path)).toBe(true);
});

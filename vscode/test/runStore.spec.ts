import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Uri } from 'vscode';

import { IStoredRun, IStoredRuns, RunStore } from '../src/notebook/runStore';

/** VS Code's `Memento`, which has a copy of what it is given. */
class Memory {
  get<T>(key: string): T | undefined {
    return structuredClone(this._values.get(key)) as T | undefined;
  }

  async update(key: string, value: unknown): Promise<void> {
    this.writes++;
    this._values.set(key, structuredClone(value));
  }

  writes = 0;
  private _values = new Map<string, unknown>();
}

const uri = (path: string) => `file://${path}` as unknown as Uri;
const notebook = uri('/notebook.ipynb');
const run: IStoredRun = { cell: 'c', index: 0, hash: 'h' };
const used = (kernel: string) => ({ kernel, kernelspec: 'tpu', server: '' });
const runsOf = (count: number): IStoredRuns =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`r${index}`, { ...run }])
  );

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('has all that waits in a notebook of 2,000 cells, and is written seldom while it runs', () => {
  const memory = new Memory();
  const store = new RunStore(memory);
  store.setKernel(notebook, used('kernel'));
  store.add(notebook, runsOf(2000));
  expect(Object.keys(new RunStore(memory).runs(notebook))).toHaveLength(2000);
  for (let index = 0; index < 1999; index++) {
    store.change(notebook, `r${index}`, { started: index });
    store.change(notebook, `r${index}`, { ended: true });
    vi.advanceTimersByTime(5); // 10 s in all
  }
  expect(memory.writes).toBeLessThan(25);
  store.saved(notebook, store.ended(notebook));
  store.add(notebook, { next: run });
  const runs = new RunStore(memory).runs(notebook);
  expect(Object.keys(runs)).toHaveLength(502); // the latest that have ended, and those that have not
  expect(runs.r1998).toMatchObject({ started: 1998, saved: true });
  expect(runs.r1999.ended).toBeUndefined();
});

it('has what changed last when the window is closed', () => {
  const memory = new Memory();
  const store = new RunStore(memory);
  store.setKernel(notebook, used('kernel'));
  store.add(notebook, runsOf(1));
  store.change(notebook, 'r0', { ended: true });
  store.dispose();
  expect(new RunStore(memory).runs(notebook).r0.ended).toBe(true);
});

it('forgets what another kernel ran, and notebooks that were not used for long', () => {
  const memory = new Memory();
  const store = new RunStore(memory);
  store.setKernel(notebook, used('kernel'));
  store.add(notebook, runsOf(1));
  store.setKernel(notebook, used('kernel'));
  expect(store.runs(notebook)).toHaveProperty('r0');
  store.setKernel(notebook, used('other'));
  expect(store.runs(notebook)).toEqual({});
  for (let index = 0; index < 50; index++) {
    store.setKernel(uri(`/${index}.ipynb`), used('kernel'));
  }
  const stored = new RunStore(memory);
  expect(stored.kernel(notebook)).toBeUndefined();
  expect(stored.kernel(uri('/0.ipynb'))).toMatchObject(used('kernel'));
});

import { expect, it, vi } from 'vitest';

import { later } from '../state/later';

it('loads an object with the first call, once, and again after a failure', async () => {
  class Counter {
    count = 0;
    async add(more: number): Promise<number> {
      this.count += more;
      return this.count;
    }
  }
  const load = vi.fn(async () => new Counter());
  load.mockRejectedValueOnce(new Error('The server was away.'));
  const counter = later(load);
  expect(load).not.toHaveBeenCalled();
  await expect(counter.add(1)).rejects.toThrow('The server was away.');
  const both = [counter.add(1), counter.add(2)]; // in their order
  expect(await Promise.all(both)).toEqual([1, 3]);
  expect(load).toHaveBeenCalledTimes(2);
});

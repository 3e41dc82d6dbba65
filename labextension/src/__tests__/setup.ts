// What jsdom lacks and JupyterLab's packages use as soon as they are imported; patience; and the end of
// each test.

import { afterEach, vi } from 'vitest';

import { cleanups } from './cleanups';

globalThis.DragEvent ??= class extends MouseEvent {} as typeof DragEvent;
window.matchMedia ??= () =>
  ({
    matches: false,
    addEventListener() {},
    removeEventListener() {}
  }) as never;
globalThis.requestIdleCallback ??= callback =>
  setTimeout(callback, 0) as unknown as number;

// On a busy machine what is waited for can take longer than a second.
const { waitFor } = vi;
vi.waitFor = (callback, options) =>
  waitFor(callback, options ?? { timeout: 30_000 });

afterEach(() => {
  vi.useRealTimers();
  cleanups.forEach(cleanUp => cleanUp());
  localStorage.clear();
});

// What jsdom lacks and JupyterLab's packages use as soon as they are imported; and patience.

import { vi } from 'vitest';

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

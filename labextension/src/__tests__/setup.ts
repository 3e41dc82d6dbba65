// What jsdom lacks and JupyterLab's packages use as soon as they are imported.

globalThis.DragEvent ??= class extends MouseEvent {} as typeof DragEvent;
window.matchMedia ??= () =>
  ({
    matches: false,
    addEventListener() {},
    removeEventListener() {}
  }) as never;
globalThis.requestIdleCallback ??= callback =>
  setTimeout(callback, 0) as unknown as number;

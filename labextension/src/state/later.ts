// Objects that are loaded when somebody uses them.

/** An object of asynchronous methods: the first call of one loads it. */
export function later<T extends object>(load: () => Promise<T>): T {
  let loading: Promise<T> | undefined;
  return new Proxy({} as T, {
    get:
      (_, name) =>
      async (...args: unknown[]) => {
        loading ??= load();
        const loaded = await loading.catch(error => {
          loading = undefined; // tried again by the next call
          throw error;
        });
        const method = loaded[name as keyof T] as (...a: unknown[]) => unknown;
        return method.apply(loaded, args);
      }
  });
}

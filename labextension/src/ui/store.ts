// How React components follow the changes of a store.

import { useCallback, useSyncExternalStore } from 'react';

import { Store } from './observable';

export { Store, until } from './observable';

/** Renders the component again when the store changes. */
export function useStore<T extends Store>(store: T): T {
  const subscribe = useCallback(
    (onChange: () => void) => {
      store.stateChanged.connect(onChange);
      return () => {
        store.stateChanged.disconnect(onChange);
      };
    },
    [store]
  );
  useSyncExternalStore(subscribe, () => store.version);
  return store;
}

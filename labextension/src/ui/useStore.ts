// How React components follow the changes of a store.

import { useCallback, useSyncExternalStore } from 'react';

import { Store } from '../state/observable';

/** Renders the component again when the store changes; *active*: whether it can be seen. */
export function useStore<T extends Store>(store: T, active = true): T {
  const subscribe = useCallback(
    (onChange: () => void) => {
      store.stateChanged.connect(onChange);
      return () => {
        store.stateChanged.disconnect(onChange);
      };
    },
    [store]
  );
  useSyncExternalStore(subscribe, () => (active ? store.version : -1));
  return store;
}

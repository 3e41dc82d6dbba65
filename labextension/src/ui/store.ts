// State that React components read, and how they follow its changes.

import { VDomModel } from '@jupyterlab/ui-components';
import { useCallback, useSyncExternalStore } from 'react';

/** A model that counts its changes, so that React can compare two states. */
export class Store extends VDomModel {
  /** Grows with each change. */
  get version(): number {
    return this._version;
  }

  protected changed(): void {
    if (!this.isDisposed) {
      this._version += 1;
      this.stateChanged.emit();
    }
  }

  private _version = 0;
}

/** Resolves with what *find* returns as soon as that is not null: now, or after a change. */
export function until<T>(store: Store, find: () => T | null): Promise<T> {
  return new Promise(resolve => {
    const onChange = () => {
      const found = find();
      if (found !== null) {
        store.stateChanged.disconnect(onChange);
        resolve(found);
      }
    };
    store.stateChanged.connect(onChange);
    onChange();
  });
}

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

// State that React components read, and how they hear of its changes.

import { VDomModel } from '@jupyterlab/ui-components';
import { useCallback, useSyncExternalStore } from 'react';

/** A model whose changes are counted, so that React can tell two states apart. */
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

/** Renders the component again, before the browser goes on, when the store changes. */
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

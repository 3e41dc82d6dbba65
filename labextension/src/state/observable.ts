// State that says when it has changed.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

/** A model that counts its changes, so that React can compare two states. */
export class Store implements IDisposable {
  /** It has changed. */
  get stateChanged(): ISignal<this, void> {
    return this._stateChanged;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  /** Grows with each change. */
  get version(): number {
    return this._version;
  }

  protected changed(): void {
    if (!this.isDisposed) {
      this._version += 1;
      this._stateChanged.emit();
    }
  }

  private _isDisposed = false;
  private _stateChanged = new Signal<this, void>(this);
  private _version = 0;
}

/** Resolves with what *find* returns as soon as that is not null: now, or after a change. */
export function until<T>(store: Store, find: () => T | null): Promise<T> {
  return new Promise(resolve => {
    const onChange = () => {
      const value = find();
      if (value !== null) {
        store.stateChanged.disconnect(onChange);
        resolve(value);
      }
    };
    store.stateChanged.connect(onChange);
    onChange();
  });
}

/** As `until`, but undefined after *patience* milliseconds. *find* returns undefined to go on waiting. */
export function untilOr<T>(
  patience: number,
  store: Store,
  find: () => T | undefined
): Promise<T | undefined> {
  return new Promise(resolve => {
    const end = (value?: T) => {
      clearTimeout(timer);
      store.stateChanged.disconnect(onChange);
      resolve(value);
    };
    const onChange = () => {
      const value = find();
      if (value !== undefined) {
        end(value);
      }
    };
    const timer = setTimeout(end, patience);
    store.stateChanged.connect(onChange);
    onChange();
  });
}

// The changes that the server tells about, and whether they flow.

import { Event, EventManager, ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { IChange } from '../api';

export const CHANGE_SCHEMA = 'https://events.jupyter-tpu.org/change/v1';

/** Where changes come from. */
export interface IChanges extends IDisposable {
  /** A change that the server told about. */
  readonly changed: ISignal<IChanges, IChange>;
  /** Whether changes arrive now; while they don't, some may be missed. */
  readonly flowing: boolean;
  readonly flowingChanged: ISignal<IChanges, boolean>;
}

/**
 * Changes from Jupyter's events.
 *
 * JupyterLab's own event manager reconnects without telling anyone, so that nobody could know that
 * events were missed. This one is an event manager too, on a socket that says when it opens and
 * closes.
 */
export class ServerChanges implements IChanges {
  constructor(settings: ServerConnection.ISettings) {
    const watch = (flowing: boolean) => this._setFlowing(flowing);
    class WatchedSocket extends settings.WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('open', () => watch(true));
        this.addEventListener('close', () => watch(false));
      }
    }
    this._events = new EventManager({
      serverSettings: { ...settings, WebSocket: WatchedSocket }
    });
    this._events.stream.connect(this._onEvent, this);
  }

  get changed(): ISignal<this, IChange> {
    return this._changed;
  }

  get flowing(): boolean {
    return this._flowing;
  }

  get flowingChanged(): ISignal<this, boolean> {
    return this._flowingChanged;
  }

  get isDisposed(): boolean {
    return this._events.isDisposed;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._events.dispose();
      Signal.clearData(this);
    }
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id === CHANGE_SCHEMA) {
      this._changed.emit(event as unknown as IChange);
    }
  }

  private _setFlowing(flowing: boolean): void {
    if (flowing !== this._flowing && !this.isDisposed) {
      this._flowing = flowing;
      this._flowingChanged.emit(flowing);
    }
  }

  private _changed = new Signal<this, IChange>(this);
  private _events: EventManager;
  private _flowing = false;
  private _flowingChanged = new Signal<this, boolean>(this);
}

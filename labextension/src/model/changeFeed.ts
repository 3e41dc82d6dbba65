// The changes that the server tells about, and whether they flow.

import { Event, EventManager, ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { IChange } from '../api';

export const CHANGE_SCHEMA = 'https://events.jupyter-tpu.org/change/v1';

/** Where changes come from. */
export interface IChangeFeed extends IDisposable {
  /** A change that the server told about. */
  readonly changed: ISignal<IChangeFeed, IChange>;
  /** Whether changes arrive now; while they don't, some may be missed. */
  readonly connected: boolean;
  readonly connectedChanged: ISignal<IChangeFeed, boolean>;
}

/**
 * Changes from Jupyter's events.
 *
 * JupyterLab's own event manager reconnects without telling anyone, so that nobody could know that
 * events were missed. This one is an event manager too, on a socket that says when it opens and
 * closes.
 */
export class ServerChangeFeed implements IChangeFeed {
  constructor(settings: ServerConnection.ISettings) {
    const watch = (connected: boolean) => this._setConnected(connected);
    class ObservedSocket extends settings.WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('open', () => watch(true));
        this.addEventListener('close', () => watch(false));
      }
    }
    this._events = new EventManager({
      serverSettings: { ...settings, WebSocket: ObservedSocket }
    });
    this._events.stream.connect(this._onEvent, this);
  }

  get changed(): ISignal<this, IChange> {
    return this._changed;
  }

  get connected(): boolean {
    return this._connected;
  }

  get connectedChanged(): ISignal<this, boolean> {
    return this._connectedChanged;
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

  private _setConnected(connected: boolean): void {
    if (connected !== this._connected && !this.isDisposed) {
      this._connected = connected;
      this._connectedChanged.emit(connected);
    }
  }

  private _changed = new Signal<this, IChange>(this);
  private _events: EventManager;
  private _connected = false;
  private _connectedChanged = new Signal<this, boolean>(this);
}

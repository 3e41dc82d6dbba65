// The server's events about changes, and whether they arrive.

import { Event, EventManager, ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { IChange } from '../rest/api';
import { CHANGE_SCHEMA } from '../rest/changeSchema';

/** A source of changes. */
export interface IChangeFeed extends IDisposable {
  /** The server says that something has changed. */
  readonly changed: ISignal<IChangeFeed, IChange>;
  /** Whether events arrive; while they don't, changes may be missed. */
  readonly connected: boolean;
  readonly connectedChanged: ISignal<IChangeFeed, boolean>;
}

/**
 * Changes from Jupyter's events.
 *
 * JupyterLab's own event manager does not report reconnects, so events could be missed unnoticed.
 * This is another event manager, on a socket that reports when it opens and closes.
 */
export class ServerChangeFeed implements IChangeFeed {
  constructor(settings: ServerConnection.ISettings) {
    const setConnected = (connected: boolean) => this._setConnected(connected);
    class ObservedSocket extends settings.WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('open', () => setConnected(true));
        this.addEventListener('close', () => setConnected(false));
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

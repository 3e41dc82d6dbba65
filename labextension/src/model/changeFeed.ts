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
 * JupyterLab's event manager, which reports when its socket opens and closes, too: without that, events
 * could be missed unnoticed. It takes the place of JupyterLab's own, so that there is one socket.
 */
export class ObservedEventManager extends EventManager {
  constructor(settings: ServerConnection.ISettings) {
    const sockets = new Sockets();
    class ObservedSocket extends settings.WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('open', () => sockets.set(true));
        this.addEventListener('close', () => sockets.set(false));
      }
    }
    super({ serverSettings: { ...settings, WebSocket: ObservedSocket } });
    this.sockets = sockets;
  }

  readonly sockets: Sockets;
}

/** Whether a socket is open. */
class Sockets {
  readonly changed = new Signal<this, boolean>(this);
  open = false;

  set(open: boolean): void {
    if (open !== this.open) {
      this.open = open;
      this.changed.emit(open);
    }
  }
}

/** Changes from Jupyter's events. */
export class ServerChangeFeed implements IChangeFeed {
  /** *events*: the application's; any but an observed one is replaced by one of its own. */
  constructor(events: Event.IManager, settings: ServerConnection.ISettings) {
    this._shared = events instanceof ObservedEventManager;
    this._events =
      events instanceof ObservedEventManager
        ? events
        : new ObservedEventManager(settings);
    this._events.stream.connect(this._onEvent, this);
    this._events.sockets.changed.connect(this._onSocket, this);
  }

  get changed(): ISignal<this, IChange> {
    return this._changed;
  }

  get connected(): boolean {
    return this._events.sockets.open;
  }

  get connectedChanged(): ISignal<this, boolean> {
    return this._connectedChanged;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._events.stream.disconnect(this._onEvent, this);
    this._events.sockets.changed.disconnect(this._onSocket, this);
    if (!this._shared) {
      this._events.dispose();
    }
    Signal.clearData(this);
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id === CHANGE_SCHEMA) {
      this._changed.emit(event as unknown as IChange);
    }
  }

  private _onSocket(_: unknown, open: boolean): void {
    this._connectedChanged.emit(open);
  }

  private _changed = new Signal<this, IChange>(this);
  private _connectedChanged = new Signal<this, boolean>(this);
  private _events: ObservedEventManager;
  private _isDisposed = false;
  private _shared: boolean;
}

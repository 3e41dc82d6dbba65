// The server's events about changes, over one websocket that connects again by itself.

import { ISignal, Signal } from '@lumino/signaling';

import { language } from '../../labextension/src/language/translation';
import { IChangeFeed } from '../../labextension/src/model/changeFeed';
import { IChange, IProblem } from '../../labextension/src/rest/api';
import {
  CHANGE_SCHEMA,
  KERNEL_REFUSED_SCHEMA
} from '../../labextension/src/rest/changeSchema';
import { IServer, openSocket } from './client';

/** Why the server has not started a kernel. */
export type Refusal = Pick<IProblem, 'message' | 'hint'>;

/** Milliseconds between two attempts to connect: the first pause, and the longest. */
const PAUSE = { first: 500, longest: 30_000 };

export class EventFeed implements IChangeFeed {
  constructor(private _server: IServer) {
    this._connect();
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

  /** A kernel of this server was not started, for this window or another client. */
  get refused(): ISignal<this, Refusal> {
    return this._refused;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      clearTimeout(this._timer);
      this._socket?.close();
      Signal.clearData(this);
    }
  }

  private _connect(): void {
    const socket = openSocket(this._server, 'api/events/subscribe', {
      language
    });
    if (!socket) {
      this._retryLater();
      return;
    }
    this._socket = socket;
    socket.addEventListener('open', () => {
      this._failures = 0;
      this._setConnected(true);
    });
    socket.addEventListener('message', event => this._receive(event.data));
    // After an error comes a close.
    socket.addEventListener('close', () => {
      this._setConnected(false);
      if (!this._isDisposed) {
        this._retryLater();
      }
    });
  }

  private _retryLater(): void {
    const pause = PAUSE.first * 2 ** this._failures;
    this._failures += 1;
    this._timer = setTimeout(
      () => this._connect(),
      Math.min(pause, PAUSE.longest)
    );
  }

  private _receive(data: unknown): void {
    let event: { schema_id?: string };
    try {
      event = JSON.parse(String(data));
    } catch {
      return; // not an event
    }
    if (event?.schema_id === CHANGE_SCHEMA) {
      this._changed.emit(event as unknown as IChange);
    } else if (event?.schema_id === KERNEL_REFUSED_SCHEMA) {
      this._refused.emit(event as unknown as Refusal);
    }
  }

  private _setConnected(connected: boolean): void {
    if (connected !== this._connected && !this._isDisposed) {
      this._connected = connected;
      this._connectedChanged.emit(connected);
    }
  }

  private _changed = new Signal<this, IChange>(this);
  private _connected = false;
  private _connectedChanged = new Signal<this, boolean>(this);
  private _failures = 0;
  private _isDisposed = false;
  private _refused = new Signal<this, Refusal>(this);
  private _socket?: WebSocket;
  private _timer?: ReturnType<typeof setTimeout>;
}

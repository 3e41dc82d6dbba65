// The server's events about changes, and whether they arrive.

import { Event, EventManager, ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { language } from '../language/translation';
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

/** Whether a socket for events is open. */
class EventSockets {
  readonly changed = new Signal<this, boolean>(this);
  open = false;

  follow(socket: WebSocket): void {
    socket.addEventListener('open', () => this._set(true));
    socket.addEventListener('close', () => this._set(false));
  }

  private _set(open: boolean): void {
    if (open !== this.open) {
      this.open = open;
      this.changed.emit(open);
    }
  }
}

/** Which classes of sockets tell whom when a socket for events opens and closes. */
const observers = new WeakMap<typeof WebSocket, EventSockets>();

/**
 * *base*, but it is known when a socket for events opens and closes. JupyterLab's own event manager does
 * not report that, so that events could be missed unnoticed. *query*: added to that socket's address.
 */
export function observedSocket(
  base: typeof WebSocket,
  query = ''
): typeof WebSocket {
  const sockets = new EventSockets();
  const observed = new Proxy(base, {
    construct(
      target,
      [url, ...others]: ConstructorParameters<typeof WebSocket>,
      newTarget
    ) {
      const isOurs = String(url).includes('/api/events/subscribe');
      const sign = String(url).includes('?') ? '&' : '?';
      const address = isOurs && query ? `${url}${sign}${query}` : url;
      const socket = Reflect.construct(target, [address, ...others], newTarget);
      if (isOurs) {
        sockets.follow(socket);
      }
      return socket;
    }
  });
  observers.set(observed, sockets);
  return observed;
}

/** Changes from Jupyter's events. */
export class ServerChangeFeed implements IChangeFeed {
  /**
   * *events*: the application's. It has one of its own where the application's sockets are not observed,
   * and in another language than English: JupyterLab opens its socket before it knows the language.
   */
  constructor(events: Event.IManager, settings: ServerConnection.ISettings) {
    const { WebSocket } = (events as EventManager).serverSettings ?? settings;
    const isEnglish = /^en\b/.test(language);
    const shared = isEnglish ? observers.get(WebSocket) : undefined;
    if (shared) {
      this._sockets = shared;
      this._events = events;
    } else {
      const query = isEnglish ? '' : `language=${language}`;
      const own = observedSocket(settings.WebSocket, query);
      this._sockets = observers.get(own)!;
      this._events = this._own = new EventManager({
        serverSettings: { ...settings, WebSocket: own }
      });
    }
    this._events.stream.connect(this._onEvent, this);
    this._sockets.changed.connect(this._onSocket, this);
  }

  readonly changed = new Signal<this, IChange>(this);

  get connected(): boolean {
    return this._sockets.open;
  }

  readonly connectedChanged = new Signal<this, boolean>(this);

  isDisposed = false;

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._events.stream.disconnect(this._onEvent, this);
    this._sockets.changed.disconnect(this._onSocket, this);
    this._own?.dispose();
    Signal.clearData(this);
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    if (event.schema_id === CHANGE_SCHEMA) {
      this.changed.emit({ ...event } as unknown as IChange);
    }
  }

  private _onSocket(_: unknown, open: boolean): void {
    this.connectedChanged.emit(open);
  }

  private _events: Event.IManager;
  private _own?: EventManager;
  private _sockets: EventSockets;
}

// A websocket to a kernel that brings each message once, whatever breaks, and that stays "connecting"
// while there is no server. JupyterLab would look again only after 10 to 30 seconds, and would get
// what was under way twice or not at all.
//
// The server numbers what it sends (jupyter_tpu/server/adoption/websocket.py tells how they talk).

import { idOf, ISequence, sequenceOf, parentOf } from './frames';
import { IReplayableRequest, Position, Positions } from './positions';

/** Milliseconds between attempts to reach the server: the first, and the longest. */
const RETRY = [200, 2000];
/** Messages, or bytes, after which what came is acknowledged at once; else after some time (ms). */
const ACK = { messages: 64, bytes: 1 << 19, time: 200 };

const KERNEL = /\/api\/kernels\/([^/?]+)\/channels\?session_id=([^&]+)/;

/** What the server says of a kernel: it has it, it has not, or it does not answer. */
export type Presence = 'there' | 'gone' | 'away';

export interface IOptions {
  places: Positions;
  /** Whether a kernel may be one of ours. */
  isTPUKernel: (kernelId: string) => boolean;
  presence: (kernelId: string) => Promise<Presence>;
}

/** A class in place of *base*: other sockets than those of our kernels are *base* itself. */
export function replayingSocket(
  base: typeof WebSocket,
  options: IOptions
): typeof WebSocket {
  class MaybeKeepingSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      const found = KERNEL.exec(String(url))?.slice(1).map(decodeURIComponent);
      const ours = found && options.isTPUKernel(found[0]);
      return (
        ours
          ? new ReplayingSocket(base, options, found, String(url), protocols)
          : new base(url, protocols)
      ) as MaybeKeepingSocket;
    }

    static readonly CONNECTING = 0;
    static readonly OPEN = 1;
    static readonly CLOSING = 2;
    static readonly CLOSED = 3;
  }
  return MaybeKeepingSocket as unknown as typeof WebSocket;
}

/** As much of a WebSocket as JupyterLab uses. */
class ReplayingSocket {
  onopen: ((event: Event) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  onerror: ((event: Event) => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  binaryType: BinaryType = 'arraybuffer';
  readyState = 0;

  constructor(
    private _base: typeof WebSocket,
    private _options: IOptions,
    [kernelId, clientId]: string[],
    readonly url: string,
    private _protocols?: string | string[]
  ) {
    this._kernelId = kernelId;
    this._clientId = clientId;
    this._place = _options.places.of(kernelId, clientId);
    this._socket = this._connect();
  }

  get protocol(): string {
    return this._socket.protocol;
  }

  send(data: string | ArrayBuffer): void {
    if (data instanceof ArrayBuffer && this._place.offered.size > 0) {
      const id = idOf(data);
      if (this._place.offered.delete(id)) {
        this._place.replays.set(id, { frame: data, last: 0 });
      }
    }
    this._socket.send(data);
  }

  close(code?: number, reason?: string): void {
    this._end();
    this._socket.close(code, reason);
  }

  private _connect(): WebSocket {
    const seen = this._place.seen ?? '';
    const url = `${this.url}&jupyter_tpu_seen=${seen}`;
    const socket = new this._base(url, this._protocols);
    socket.binaryType = 'arraybuffer';
    socket.onopen = event => {
      this.readyState = 1;
      this.onopen?.(event);
    };
    socket.onmessage = event => this._onMessage(event);
    socket.onclose = event => this._onClose(event);
    return socket;
  }

  private _onClose(event: CloseEvent): void {
    if (this.readyState === 0) {
      this._timer = setTimeout(() => void this._reconnect(event), this._pause);
      this._pause = Math.min(2 * this._pause, RETRY[1]);
    } else if (this.readyState === 1) {
      this._end();
      // 1001, a server that goes away, would be for good to JupyterLab.
      const code = event.code === 1001 ? 1006 : event.code;
      this.onclose?.(new CloseEvent('close', { code, reason: event.reason }));
    }
  }

  /** There was no websocket to be had: is there a server, and has it the kernel? */
  private async _reconnect(event: CloseEvent): Promise<void> {
    const presence = await this._options.presence(this._kernelId);
    if (this.readyState !== 0) {
      return;
    }
    if (presence === 'there') {
      this._socket = this._connect();
    } else if (presence === 'gone') {
      this._end();
      this.onclose?.(event);
    } else {
      this._onClose(event);
    }
  }

  private _end(): void {
    this.readyState = 3;
    clearTimeout(this._timer);
    clearTimeout(this._ackTimer);
  }

  private _onMessage(event: MessageEvent): void {
    if (this.readyState !== 1) {
      return;
    }
    if (typeof event.data === 'string') {
      const control = (
        JSON.parse(event.data) as { jupyter_tpu?: IControlMessage }
      ).jupyter_tpu;
      if (control) {
        this._onControl(control);
        return;
      }
    } else {
      const mark = sequenceOf(event.data as ArrayBuffer);
      if (mark && !this._isUnseen(mark, event.data as ArrayBuffer)) {
        return;
      }
    }
    this.onmessage?.(event);
  }

  private _onControl(control: IControlMessage): void {
    const { places } = this._options;
    if (control.at !== undefined) {
      this._place.seen = this._acknowledged = control.at;
      // What was asked for again and had not come whole: the rest of it.
      this._place.replays.forEach(({ frame, last }, id) => {
        this._socket.send(
          JSON.stringify({ jupyter_tpu: { shown: { [id]: last } } })
        );
        this._socket.send(frame);
      });
      if (control.requests?.length) {
        places.offer(this._clientId, this._place, control.requests);
      }
    }
    if (control.replayed !== undefined) {
      this._place.replays.delete(control.replayed);
    }
  }

  /** Whether a message is to be handed on. */
  private _isUnseen(mark: ISequence, frame: ArrayBuffer): boolean {
    const place = this._place;
    const replay =
      place.replays.size > 0 ? place.replays.get(parentOf(frame)) : undefined;
    if (mark.replayed) {
      if (!replay || mark.number <= replay.last) {
        return false;
      }
      replay.last = mark.number;
      return true;
    }
    if (place.seen !== null && mark.number <= place.seen) {
      return false;
    }
    place.seen = mark.number;
    this._bytes += frame.byteLength;
    this._acknowledge();
    // Until its replay is over, what comes of a request is in the replay, too.
    return !replay;
  }

  private _acknowledge(): void {
    const count = this._place.seen! - this._acknowledged;
    if (count >= ACK.messages || this._bytes >= ACK.bytes) {
      this._acknowledgeNow();
    } else if (this._ackTimer === undefined) {
      this._ackTimer = setTimeout(() => this._acknowledgeNow(), ACK.time);
    }
  }

  private _acknowledgeNow(): void {
    clearTimeout(this._ackTimer);
    this._ackTimer = undefined;
    if (this.readyState === 1) {
      this._acknowledged = this._place.seen!;
      this._bytes = 0;
      this._socket.send(
        JSON.stringify({ jupyter_tpu: { seen: this._acknowledged } })
      );
    }
  }

  private _kernelId: string;
  private _clientId: string;
  private _place: Position;
  private _socket: WebSocket;
  private _pause = RETRY[0];
  private _timer?: ReturnType<typeof setTimeout>;
  private _ackTimer?: ReturnType<typeof setTimeout>;
  private _acknowledged = 0;
  private _bytes = 0;
}

/** What the server says beside the kernel's messages. */
interface IControlMessage {
  at?: number;
  requests?: IReplayableRequest[];
  replayed?: string;
}

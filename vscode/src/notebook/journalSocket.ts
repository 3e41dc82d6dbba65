// The websocket of one kernel. Each of the kernel's messages is handed on once and in order, whatever
// happens to the connection or the server: the server numbers them and keeps them in a journal
// (jupyter_tpu/server/adoption/client_feed.py describes the protocol).

import { IServer, openSocket } from '../client';
import { decode, encode, IMessage, PROTOCOL } from './wire';

/** An execute request that the server offers to a new client: it runs, or has ended recently. */
export interface IOfferedRequest {
  id: string;
  /** The notebook's cell, as its client named it. */
  cell: string;
  /** The execution count, once it has ended. */
  count: number | null;
  code: string;
  /** How many lines it has printed until now. */
  lines: number;
}

export interface IJournalListener {
  /** Each message once; those of a followed request from its beginning. */
  onMessage(message: IMessage): void;
  /** What other clients have run, and this one may show: see `follow`. */
  onOffer(requests: IOfferedRequest[]): void;
  /**
   * The server does not know a request. hadIt: it did once, so that its kernel has gone; else the
   * request has never arrived.
   */
  onUnknown(request: string, hadIt: boolean): void;
  /** Some client has answered an input_request. */
  onAnswered(input: string): void;
  /** Connected, or not any more. */
  onConnection(): void;
  /** There is no such kernel. */
  onGone(): void;
}

export interface IJournalOptions {
  kernel: string;
  /** The session of this client. */
  client: string;
  /** The server; null: none is known now. */
  server: () => IServer | null;
  /** What the server says of the kernel. lost: the server has to be looked for. */
  lookUp: () => Promise<'found' | 'missing' | 'unavailable' | 'lost'>;
  /** Looks for the server; called again as long as that is needed. */
  search: () => Promise<unknown>;
}

/** Milliseconds between attempts to connect: the first pause, and the longest. */
const RETRY = { first: 100, longest: 2000 };
/** The longest while the server has to be looked for, which runs a program. */
const LOOK_AGAIN = 15_000;
/** After so much silence (ms) the server is asked for a sign of life, and after so much more it is dead. */
const SILENCE = 10_000;
/** Messages, or bytes, after which they are acknowledged at once; otherwise after a time (ms). */
const ACK = { messages: 64, bytes: 1 << 19, time: 200 };

/** No request has this id. The server says so, which is a sign of life. */
const NO_REQUEST = '';

/** What a client has of one request. */
interface IFollowed {
  /** The number of its last message. */
  last: number;
  /** What is missing was asked for: until it has come, live messages are in it, too. */
  asked: boolean;
  /** The server has the request. */
  arrived: boolean;
  /** It has ended: what comes after what was asked for comes live. */
  over: boolean;
}

interface IControl {
  at?: number;
  server?: string;
  requests?: IOfferedRequest[];
  replayed?: string;
  missing?: boolean;
  answered?: string;
}

export class JournalSocket {
  constructor(
    private _options: IJournalOptions,
    private _listener: IJournalListener
  ) {
    this._connect();
  }

  dispose(): void {
    this._isDisposed = true;
    this._end();
    // 1000: this client does not come back.
    this._socket?.close(1000);
  }

  get isConnected(): boolean {
    return this._isReady;
  }

  /** The server has another address, or is there again. */
  reconnect(): void {
    if (!this._isDisposed && !this._isReady) {
      this._drop();
      this._connect();
    }
  }

  /**
   * Hands on all of these requests' messages from their beginning, also their replies. As with those
   * that are sent here, what is missed by a broken connection is repeated.
   */
  follow(...requests: string[]): void {
    for (const request of requests) {
      const followed = { last: 0, asked: true, arrived: true, over: false };
      this._followed.set(request, followed);
    }
    this._ask(requests);
  }

  /** Sends an execute request; when it is connected again, if it is not. It runs once at most. */
  execute(message: IMessage): void {
    const request = message.header.msg_id;
    const followed = { last: 0, asked: false, arrived: false, over: false };
    this._followed.set(request, followed);
    if (this.send(message)) {
      this._ping(() => (followed.arrived = true));
    }
  }

  /** The request has ended. */
  forget(request: string): void {
    const followed = this._followed.get(request);
    if (followed?.asked) {
      followed.over = true;
    } else {
      this._followed.delete(request);
    }
  }

  /** Sends the kernel a message. False: there is no connection. */
  send(message: IMessage): boolean {
    if (this._isReady) {
      this._socket!.send(encode(message));
    }
    return this._isReady;
  }

  /** Sends the kernel a message; again when it is connected again, until the server has it. */
  deliver(message: IMessage): void {
    this._undelivered.push(message);
    this._deliver(message);
  }

  private _deliver(message: IMessage): void {
    if (this.send(message)) {
      this._ping(() => {
        this._undelivered = this._undelivered.filter(one => one !== message);
      });
    }
  }

  private _connect(): void {
    const { client, kernel } = this._options;
    const server = this._options.server();
    const path = `api/kernels/${kernel}/channels`;
    const query = {
      session_id: client,
      jupyter_tpu_seen: this._seen === null ? '' : String(this._seen),
      jupyter_tpu_server: this._server,
      jupyter_tpu_document: 'own'
    };
    const socket = server && openSocket(server, path, query, [PROTOCOL]);
    if (!socket) {
      this._retryLater();
      return;
    }
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', event => {
      if (socket === this._socket) {
        this._receive(event.data);
      }
    });
    // After an error comes a close.
    socket.addEventListener('close', () => {
      if (socket === this._socket) {
        this._drop();
        this._retryLater();
      }
    });
    this._socket = socket;
    this._watch();
  }

  private _retryLater(longest = RETRY.longest): void {
    if (!this._isDisposed) {
      clearTimeout(this._timer);
      this._timer = setTimeout(() => void this._retry(), this._pause);
      this._pause = Math.min(2 * this._pause, longest);
    }
  }

  private async _retry(): Promise<void> {
    const attempt = ++this._attempt;
    const status = this._options.server()
      ? await this._options.lookUp()
      : 'lost';
    if (this._isDisposed || this._socket || attempt !== this._attempt) {
      return;
    }
    if (status === 'missing') {
      this._listener.onGone();
    } else if (status === 'found') {
      this._connect();
    } else {
      const isLost = status === 'lost';
      if (isLost) {
        await this._options.search();
      }
      if (attempt === this._attempt && !this._socket) {
        this._retryLater(isLost ? LOOK_AGAIN : RETRY.longest);
      }
    }
  }

  /** Ends a connection that does not give a sign of life. */
  private _watch(): void {
    clearTimeout(this._silence);
    this._silence = setTimeout(() => {
      if (this._isReady) {
        this._ping();
      }
      this._silence = setTimeout(() => {
        this._drop();
        this._retryLater();
      }, SILENCE);
    }, SILENCE);
  }

  private _drop(): void {
    const socket = this._socket;
    const wasReady = this._isReady;
    this._end();
    this._socket = undefined;
    socket?.close();
    if (wasReady) {
      this._listener.onConnection();
    }
  }

  private _end(): void {
    this._isReady = false;
    this._attempt++;
    clearTimeout(this._timer);
    clearTimeout(this._silence);
    clearTimeout(this._ackTimer);
    this._ackTimer = undefined;
    this._pings = [];
  }

  private _receive(data: unknown): void {
    this._watch();
    if (typeof data === 'string') {
      const { jupyter_tpu } = JSON.parse(data) as { jupyter_tpu?: IControl };
      if (jupyter_tpu) {
        this._receiveControl(jupyter_tpu);
      }
      return;
    }
    const frame = data as ArrayBuffer;
    const message = decode(frame);
    const mark = message.metadata.jupyter_tpu as
      { number: number; replayed: boolean } | undefined;
    if (!mark || this._isNew(message, mark, frame.byteLength)) {
      this._listener.onMessage(message);
    }
  }

  private _isNew(
    { parent_header }: IMessage,
    { number, replayed }: { number: number; replayed: boolean },
    size: number
  ): boolean {
    const followed = this._followed.get(parent_header.msg_id ?? '');
    if (replayed) {
      if (!followed?.asked || number <= followed.last) {
        return false;
      }
    } else {
      if (this._seen !== null && number <= this._seen) {
        return false;
      }
      this._seen = number;
      this._acknowledge(size);
      if (followed?.asked) {
        return false; // it is in the repetition, too
      }
    }
    if (followed) {
      followed.last = number;
      followed.arrived = true;
    }
    return true;
  }

  private _receiveControl(control: IControl): void {
    if (control.at !== undefined) {
      this._seen = this._acknowledged = control.at;
      this._server = control.server ?? '';
      this._isReady = true;
      this._pause = RETRY.first;
      this._ask([...this._followed.keys()]);
      this._undelivered.forEach(message => this._deliver(message));
      this._listener.onConnection();
      if (control.requests?.length) {
        this._listener.onOffer(control.requests);
      }
    }
    if (control.answered !== undefined) {
      this._listener.onAnswered(control.answered);
    }
    if (control.replayed === NO_REQUEST) {
      this._pings.shift()?.();
    } else if (control.replayed !== undefined) {
      const followed = this._followed.get(control.replayed);
      if (followed?.asked) {
        followed.asked = false;
        if (followed.over) {
          this._followed.delete(control.replayed);
        } else if (control.missing) {
          this._listener.onUnknown(control.replayed, followed.arrived);
        }
        followed.arrived = true;
      }
    }
  }

  /**
   * Asks for what is missing of requests; when it is connected, if it is not. The server reads its
   * journal once for all that are asked for together.
   */
  private _ask(requests: string[]): void {
    if (this._isReady && requests.length > 0) {
      const asked = requests.map(id => [id, this._followed.get(id)!] as const);
      asked.forEach(([, followed]) => (followed.asked = true));
      const repeat = asked.map(([id, { last }]) => [id, last]);
      this._control({ repeat: Object.fromEntries(repeat) });
    }
  }

  private _acknowledge(size: number): void {
    this._bytes += size;
    const count = this._seen! - this._acknowledged;
    if (count >= ACK.messages || this._bytes >= ACK.bytes) {
      this._acknowledgeNow();
    } else {
      this._ackTimer ??= setTimeout(() => this._acknowledgeNow(), ACK.time);
    }
  }

  private _acknowledgeNow(): void {
    clearTimeout(this._ackTimer);
    this._ackTimer = undefined;
    if (this._isReady) {
      this._acknowledged = this._seen!;
      this._bytes = 0;
      this._control({ seen: this._acknowledged });
    }
  }

  /** Calls *answered* when the server has read all that was sent before. */
  private _ping(answered = () => {}): void {
    this._pings.push(answered);
    this._control({ repeat: { [NO_REQUEST]: 0 } });
  }

  private _control(fields: object): void {
    this._socket!.send(JSON.stringify({ jupyter_tpu: fields }));
  }

  private _ackTimer?: ReturnType<typeof setTimeout>;
  private _acknowledged = 0;
  /** Attempts that were given up go on, but do nothing. */
  private _attempt = 0;
  /** Not acknowledged. */
  private _bytes = 0;
  private _followed = new Map<string, IFollowed>();
  private _isDisposed = false;
  /** The server has said where it begins. */
  private _isReady = false;
  private _pause = RETRY.first;
  private _pings: (() => void)[] = [];
  /** All up to this number has come; null: the server has not said where it begins. */
  private _seen: number | null = null;
  /** An id of the server. */
  private _server = '';
  private _silence?: ReturnType<typeof setTimeout>;
  private _socket?: WebSocket;
  private _timer?: ReturnType<typeof setTimeout>;
  private _undelivered: IMessage[] = [];
}

// A websocket to a kernel that hands on each message once, whatever breaks, and that stays
// "connecting" while there is no server. JupyterLab by itself would retry only after 10 to 30 seconds,
// and would get the messages of the meantime twice or not at all.
//
// The server numbers its messages (jupyter_tpu/server/adoption/client_feed.py describes the protocol).

import {
  channelOf,
  clientOf,
  idOf,
  ISequence,
  parentOf,
  PROTOCOL,
  sequenceOf,
  typeOf
} from './frames';
import { Redirection } from './redirection';
import {
  IFollowedRequest,
  IReplayableRequest,
  KernelReplay,
  Position
} from './replay';

/**
 * Milliseconds between attempts to reach the server: the first, and the longest. Output is to go on
 * within a second after the server's first answer.
 */
const RETRY = [200, 400];
/** The same for a page that is not logged in. */
const RETRY_DENIED = 2000;
/** Attempts that fail in sequence, although the server has the kernel, until websockets count as blocked. */
const BLOCKED_AFTER = 16;
/** Messages, or bytes, after which an acknowledgement is sent at once; otherwise after a time (ms). */
const ACK = { messages: 64, bytes: 1 << 19, time: 200 };

const KERNEL = /\/api\/kernels\/([^/?]+)\/channels\?session_id=([^&]+)/;

/** What the server says of a kernel; denied: this page is not logged in; unavailable: no answer. */
export type KernelStatus = 'found' | 'missing' | 'denied' | 'unavailable';

export interface IOptions {
  replay: KernelReplay;
  lookUp: (kernelId: string) => Promise<KernelStatus>;
}

/** *base*, but sockets to kernels that may run on TPUs replay what was missed. */
export function replayingSocket(
  base: typeof WebSocket,
  options: IOptions
): typeof WebSocket {
  return new Proxy(base, {
    construct(
      target,
      [url, protocols]: ConstructorParameters<typeof WebSocket>,
      newTarget
    ) {
      const ids = KERNEL.exec(String(url))?.slice(1).map(decodeURIComponent);
      return ids && options.replay.mayRunOnTPU(ids[0])
        ? new ReplayingSocket(base, options, String(url), ids[0], ids[1])
        : Reflect.construct(target, [url, protocols], newTarget);
    }
  });
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
    readonly url: string,
    private _kernelId: string,
    private _clientId: string
  ) {
    this._position = _options.replay.position(_kernelId, _clientId);
    this._redirection = new Redirection(
      this._position,
      _clientId,
      data => this.onmessage?.(new MessageEvent('message', { data })),
      data => this._socket.send(data)
    );
    this._socket = this._connect();
  }

  get protocol(): string {
    return this._socket.protocol;
  }

  send(data: string | ArrayBuffer): void {
    const { answers, followed: requests, inputs } = this._position;
    if (data instanceof ArrayBuffer && requests.size > 0) {
      const id = idOf(data);
      const followed = requests.get(id);
      if (followed?.state === 'offered') {
        // The request itself is not sent: it must never run again.
        this._position.repeat(followed, 0);
        return;
      }
    }
    if (data instanceof ArrayBuffer && inputs.size > 0) {
      const input = parentOf(data);
      if (inputs.has(input)) {
        answers.set(input, data);
      }
    }
    this._socket.send(data);
    if (data instanceof ArrayBuffer && typeOf(data) === 'execute_request') {
      this._options.replay.ran.emit({
        clientId: this._clientId,
        id: idOf(data)
      });
    }
  }

  close(code?: number, reason?: string): void {
    this._end();
    this._options.replay.setProblem(this._clientId, null);
    this._socket.close(code, reason);
  }

  private _connect(): WebSocket {
    const { seen, server } = this._position;
    const url = `${this.url}&jupyter_tpu_seen=${seen ?? ''}&jupyter_tpu_server=${server}`;
    // Always this one: after a failure JupyterLab tries none, for servers that don't know it.
    const socket = new this._base(url, PROTOCOL);
    socket.binaryType = 'arraybuffer';
    socket.onopen = event => {
      this.readyState = 1;
      this._options.replay.setProblem(this._clientId, null);
      this.onopen?.(event);
    };
    socket.onmessage = event => this._onMessage(event);
    socket.onclose = event => this._onClose(event);
    return socket;
  }

  private _onClose(event: CloseEvent): void {
    if (this.readyState === 0) {
      this._retryLater(event);
    } else if (this.readyState === 1) {
      this._end();
      // JupyterLab does not reconnect after 1001, "the server is going away".
      const code = event.code === 1001 ? 1006 : event.code;
      this.onclose?.(new CloseEvent('close', { code, reason: event.reason }));
    }
  }

  private _retryLater(event: CloseEvent, longest = RETRY[1]): void {
    this._timer = setTimeout(() => void this._retry(event), this._pause);
    this._pause = Math.min(2 * this._pause, longest);
  }

  /** The websocket was not opened: is there a server, and does it have the kernel? */
  private async _retry(event: CloseEvent): Promise<void> {
    const status = await this._options.lookUp(this._kernelId);
    if (this.readyState !== 0) {
      return;
    }
    this._failures = status === 'found' ? this._failures + 1 : 0;
    if (this._failures >= BLOCKED_AFTER) {
      this._end();
      this._options.replay.setProblem(this._clientId, 'blocked');
      // 1000: JupyterLab shows the kernel as disconnected, until the user reconnects.
      this.onclose?.(new CloseEvent('close', { code: 1000 }));
    } else if (status === 'found') {
      this._socket = this._connect();
    } else if (status === 'missing') {
      this._end();
      this.onclose?.(event);
    } else {
      if (status === 'denied') {
        // JupyterLab would take the kernel for dead: it is not told, but the user is.
        this._options.replay.setProblem(this._clientId, 'denied');
      }
      this._retryLater(event, status === 'denied' ? RETRY_DENIED : undefined);
    }
  }

  private _end(): void {
    this.readyState = 3;
    this._position.notify = null;
    clearTimeout(this._timer);
    clearTimeout(this._ackTimer);
    this._redirection.end();
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
      const frame = event.data as ArrayBuffer;
      const sequence = sequenceOf(frame);
      if (sequence && !this._isWanted(sequence, frame)) {
        return;
      }
      this._trackInput(frame);
      this._redirection.track(frame);
    }
    this.onmessage?.(event);
  }

  private _onControl(control: IControlMessage): void {
    const { replay } = this._options;
    const position = this._position;
    if (control.at !== undefined) {
      if (position.seen === null) {
        position.began = control.at;
      }
      position.seen = this._acknowledged = control.at;
      position.server = control.server ?? '';
      position.notify = fields =>
        this._socket.send(JSON.stringify({ jupyter_tpu: fields }));
      if (control.unwritten) {
        replay.unwritten.emit({
          clientId: this._clientId,
          requests: control.unwritten
        });
      }
      // The server may have ended before it read them. It takes each once.
      position.answers.forEach(answer => this._socket.send(answer));
      control.lost?.forEach(id => replay.lose(this._clientId, id, false));
      for (const followed of position.followed.values()) {
        if (followed.state === 'waiting') {
          position.notify({ fill: followed.id });
        } else if (!['offered', 'suspended'].includes(followed.state)) {
          // The server does not know yet that this connection follows the request.
          const all = followed.state === 'live';
          position.repeat(followed, all ? control.at : followed.last);
        }
      }
      if (control.requests?.length) {
        replay.offer(this._clientId, control.requests);
      }
    }
    if (control.fill !== undefined) {
      replay.grant(this._clientId, control.fill);
    }
    if (control.answered !== undefined) {
      position.answers.delete(control.answered);
      const request = position.inputs.get(control.answered);
      if (request !== undefined) {
        position.inputs.delete(control.answered);
        replay.inputEnded.emit({ clientId: this._clientId, id: request });
      }
    }
    if (control.replayed !== undefined) {
      const followed = position.followed.get(control.replayed);
      if (control.missing) {
        replay.lose(this._clientId, control.replayed, true);
      } else if (followed?.state === 'asked') {
        this._onRepeated(followed);
      }
    }
  }

  private _onRepeated(followed: IFollowedRequest): void {
    if (followed.purpose === 'wait') {
      followed.state = 'waiting';
      this._position.notify?.({ fill: followed.id });
    } else if (followed.purpose === 'decline' || followed.replied) {
      this._position.followed.delete(followed.id);
    } else {
      followed.state = 'live';
    }
  }

  /** Whether a message is to be handed on: it is new to this page. */
  private _isWanted(sequence: ISequence, frame: ArrayBuffer): boolean {
    const position = this._position;
    const { number, replayed } = sequence;
    const parent = position.followed.size > 0 ? parentOf(frame) : '';
    const followed = position.followed.get(parent);
    if (replayed) {
      if (followed?.state !== 'asked' || number <= followed.last) {
        return false;
      }
      followed.last = number;
      if (this._redirection.takes(followed.id, frame)) {
        return false;
      }
      this._noteReply(followed, frame);
      return typeOf(frame).startsWith('comm_')
        ? number > followed.handedOn // also without the request that sent it
        : followed.purpose !== 'wait' || number > position.began;
    }
    if (position.seen !== null && number <= position.seen) {
      return false;
    }
    position.seen = number;
    this._bytes += frame.byteLength;
    this._acknowledge();
    switch (followed?.state) {
      case 'offered':
      case 'suspended':
      case 'asked':
        return false; // it is in the repetition, too
      case 'live':
        if (this._redirection.takes(parent, frame)) {
          return false;
        }
        this._noteReply(followed, frame);
        return true;
      case 'waiting':
        this._noteReply(followed, frame);
        return true;
      default:
        return !this._offers(sequence, frame);
    }
  }

  /** Whether a message begins a cell that another client runs and this page shows: it is offered. */
  private _offers({ cell }: ISequence, frame: ArrayBuffer): boolean {
    const { replay } = this._options;
    const isOffered =
      cell !== '' &&
      clientOf(frame) !== this._clientId &&
      replay.isFree(this._clientId, cell);
    if (isOffered) {
      const request = { id: parentOf(frame), cell, count: null };
      replay.offer(this._clientId, [request]);
    }
    return isOffered;
  }

  /** A request that is followed live is no longer followed after its reply. */
  private _noteReply(followed: IFollowedRequest, frame: ArrayBuffer): void {
    if (channelOf(frame) === 'shell') {
      followed.replied = true;
      if (followed.state === 'live') {
        this._position.followed.delete(followed.id);
      }
    }
  }

  /** Which requests wait for input: their boxes may have to be closed. */
  private _trackInput(frame: ArrayBuffer): void {
    const { answers, inputs } = this._position;
    const channel = channelOf(frame);
    if (channel === 'stdin') {
      inputs.set(idOf(frame), parentOf(frame));
    } else if (channel === 'shell' && inputs.size > 0) {
      const request = parentOf(frame);
      for (const [input, asking] of inputs) {
        if (asking === request) {
          inputs.delete(input);
          answers.delete(input);
          const { inputEnded } = this._options.replay;
          inputEnded.emit({ clientId: this._clientId, id: request });
        }
      }
    }
  }

  private _acknowledge(): void {
    const count = this._position.seen! - this._acknowledged;
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
      this._acknowledged = this._position.seen!;
      this._bytes = 0;
      this._position.notify?.({ seen: this._acknowledged });
    }
  }

  private _position: Position;
  private _redirection: Redirection;
  private _socket: WebSocket;
  private _failures = 0;
  private _pause = RETRY[0];
  private _timer?: ReturnType<typeof setTimeout>;
  private _ackTimer?: ReturnType<typeof setTimeout>;
  private _acknowledged = 0;
  private _bytes = 0;
}

/** What the server says besides the kernel's messages. */
interface IControlMessage {
  at?: number;
  server?: string;
  requests?: IReplayableRequest[];
  lost?: string[];
  unwritten?: IReplayableRequest[];
  fill?: string;
  replayed?: string;
  missing?: boolean;
  answered?: string;
}

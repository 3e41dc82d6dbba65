// What this page has of each kernel's output. It stays while websockets come and go.

import { Token } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { RedirectedOutput, WidgetOutputs } from './outputWidgets';

/** A request that is running, or ended so recently that its output may not be in the file. */
export interface IReplayableRequest {
  id: string;
  /** The notebook's cell. */
  cell: string;
  /** The execution count, once it has ended. */
  count: number | null;
  /** What it runs, if that is known. */
  code?: string;
  /** How many lines it has printed until now, if that is known. */
  lines?: number;
}

/** Requests whose output the server offers to a page that has none of it. */
export interface IReplayOffer {
  clientId: string;
  requests: IReplayableRequest[];
}

/** One request, and the kernel connection that it is about. */
export interface IRequestOfClient {
  clientId: string;
  id: string;
}

/**
 * What a connection does with the messages of another client's request.
 * - offered: it drops them until it is known whether a cell shows them
 * - suspended: it drops them until the shared document is the new server's
 * - asked: it takes them from the server's repetition
 * - live: all was repeated; it takes them as they come
 * - waiting: the same, but another page writes the output into the shared document
 */
type FollowedState = 'offered' | 'suspended' | 'asked' | 'live' | 'waiting';

/** A request of another client. */
export interface IFollowedRequest extends IReplayableRequest {
  state: FollowedState;
  /** Why it is repeated: a cell shows it, may have to show it later, or none does. */
  purpose: 'fill' | 'wait' | 'decline';
  /** asked: the last number of the repetition that came. */
  last: number;
  /** Messages of widgets up to this number were handed on. */
  handedOn: number;
  /** Its reply has come. */
  replied: boolean;
}

/** Requests that have ended and that another page writes: so many are kept, should it end, too. */
const MOST_ENDED = 16;

/** The position of one kernel connection in the kernel's journal. */
export class Position {
  constructor(readonly kernelId: string) {}

  /** Everything up to this number has come; null: the server has not said where it begins. */
  seen: number | null = null;
  /** The server's id. */
  server = '';
  /** What came before this number came before this connection. */
  began = 0;
  /** Requests of other clients, by id. */
  readonly followed = new Map<string, IFollowedRequest>();
  /** input_requests without an answer: their ids, and the ids of the requests that ask. */
  readonly inputs = new Map<string, string>();
  /** Answers that the server may not have, by the ids of their input_requests. */
  readonly answers = new Map<string, ArrayBuffer>();
  /** Outputs of output widgets. */
  readonly widgets: WidgetOutputs = new Map();
  /** What requests of other clients print into them, by request; until another one runs. */
  readonly redirected = new Map<string, RedirectedOutput>();
  /** Sends the server a text frame; null while there is no connection. */
  notify: ((fields: object) => void) | null = null;

  /** Asks for a request's messages after a number; when it is connected again, if it is not. */
  repeat(followed: IFollowedRequest, after: number): void {
    followed.state = 'asked';
    followed.last = after;
    const shown = followed.purpose === 'fill';
    if (after === 0) {
      this.redirected.delete(followed.id);
      if (shown) {
        const redirected = new RedirectedOutput(followed.id, this.widgets);
        this.redirected.set(followed.id, redirected);
      }
    }
    this.notify?.({ repeat: { [followed.id]: after }, shown });
  }
}

/**
 * Why a kernel connection can't be opened although the server answers. denied: this page is not
 * logged in (any more); blocked: the server has the kernel, but websockets fail.
 */
export type ConnectionProblem = 'denied' | 'blocked';

export interface IConnectionState {
  clientId: string;
  /** null: connected again. */
  problem: ConnectionProblem | null;
}

/** The output and the problems of all kernel connections of this page. */
export class KernelReplay {
  /** Requests of other pages, whose cells this page may fill. Each is filled, declined or waits. */
  readonly offered = new Signal<this, IReplayOffer>(this);
  /** A request that waited is this page's to fill. */
  readonly granted = new Signal<this, IReplayOffer>(this);
  /** A request whose cell this page filled and no longer does: another page does, or nobody can. */
  readonly lost = new Signal<this, IRequestOfClient & { missing: boolean }>(
    this
  );
  /**
   * Requests whose output was in a document that was shared on a server that has ended, and that may
   * not have saved it.
   */
  readonly unwritten = new Signal<this, IReplayOffer>(this);
  /** This page has sent a request of a cell. */
  readonly ran = new Signal<this, IRequestOfClient>(this);
  /** A request has its input, which another page may have given. */
  readonly inputEnded = new Signal<this, IRequestOfClient>(this);
  /** The connections that have problems, by their clients. */
  readonly problems = new Map<string, ConnectionProblem>();
  /** A connection has a problem, or no longer has one. */
  readonly connectionChanged = new Signal<this, IConnectionState>(this);

  /** Whether a kernel may run on a TPU. Until it is replaced: any may. */
  mayRunOnTPU: (kernelId: string) => boolean = () => true;

  /** Whether a client's notebook has a cell that waits for no output. */
  isFree: (clientId: string, cell: string) => boolean = () => false;

  position(kernelId: string, clientId: string): Position {
    let position = this._positions.get(clientId);
    if (position?.kernelId !== kernelId) {
      position = new Position(kernelId);
      this._positions.set(clientId, position);
    }
    return position;
  }

  offer(clientId: string, requests: IReplayableRequest[]): void {
    this._forgetEnded(clientId);
    requests.forEach(request => this._follow(clientId, request, 'offered'));
    this.offered.emit({ clientId, requests });
  }

  /** A cell is there now for a request that was declined: all of its output is repeated. */
  readopt(clientId: string, request: IReplayableRequest): void {
    this._follow(clientId, request, 'offered');
  }

  /** No cell of this page shows the request's output. */
  decline(clientId: string, id: string): void {
    const position = this._positions.get(clientId)!;
    const followed = position.followed.get(id);
    if (followed) {
      followed.purpose = 'decline';
      position.repeat(followed, position.began); // what was dropped
    }
  }

  /** The request's document has lost its server. Who writes its output is asked again: `resume`. */
  suspend(clientId: string, request: IReplayableRequest): void {
    const { followed, seen } = this._positions.get(clientId)!;
    const known = followed.get(request.id);
    this._follow(clientId, request, 'suspended');
    let handedOn = known?.handedOn ?? 0;
    if (known?.state === 'asked') {
      handedOn = Math.max(handedOn, known.last);
    } else if (known?.state !== 'offered' && known?.state !== 'suspended') {
      handedOn = seen!;
    }
    followed.get(request.id)!.handedOn = handedOn;
  }

  /** The request's document is the new server's. */
  resume(clientId: string, request: IReplayableRequest): void {
    const followed = this._positions.get(clientId)!.followed.get(request.id);
    if (followed?.state === 'suspended') {
      followed.state = 'offered';
      this.wait(clientId, request);
    }
  }

  /** The request's document is shared; this page fills its cell when no other page does. */
  wait(clientId: string, request: IReplayableRequest): void {
    const position = this._positions.get(clientId)!;
    const followed = position.followed.get(request.id);
    if (followed?.state === 'offered') {
      followed.purpose = 'wait';
      // What was dropped; for a new page, what made the widgets.
      position.repeat(followed, followed.handedOn);
    } else if (!followed) {
      this._follow(clientId, request, 'waiting');
      position.notify?.({ fill: request.id });
    }
  }

  /** The server says that this page is to fill a request's cell. */
  grant(clientId: string, id: string): void {
    const position = this._positions.get(clientId);
    const followed = position?.followed.get(id);
    if (followed?.state === 'waiting') {
      followed.handedOn = position!.seen!;
      followed.state = 'offered';
      followed.purpose = 'fill';
      this.granted.emit({ clientId, requests: [followed] });
    }
  }

  /** missing: the server no longer knows the request. */
  lose(clientId: string, id: string, missing: boolean): void {
    const { followed } = this._positions.get(clientId)!;
    const state = followed.get(id)?.state ?? '';
    if (!['waiting', 'suspended'].includes(state) || missing) {
      followed.delete(id);
      this.lost.emit({ clientId, id, missing });
    }
  }

  setProblem(clientId: string, problem: ConnectionProblem | null): void {
    if (problem !== (this.problems.get(clientId) ?? null)) {
      if (problem) {
        this.problems.set(clientId, problem);
      } else {
        this.problems.delete(clientId);
      }
      this.connectionChanged.emit({ clientId, problem });
    }
  }

  private _forgetEnded(clientId: string): void {
    const { followed } = this._positions.get(clientId)!;
    [...followed.values()]
      .filter(({ replied, state }) => replied && state === 'waiting')
      .slice(0, -MOST_ENDED)
      .forEach(({ id }) => followed.delete(id));
  }

  private _follow(
    clientId: string,
    request: IReplayableRequest,
    state: FollowedState
  ): void {
    this._positions.get(clientId)!.followed.set(request.id, {
      ...request,
      state,
      purpose: 'fill',
      last: 0,
      handedOn: 0,
      replied: false
    });
  }

  private _positions = new Map<string, Position>();
}

export const IKernelReplay = new Token<KernelReplay>(
  'jupyter-tpu:IKernelReplay',
  'The output of kernels on TPUs that this page has received.'
);

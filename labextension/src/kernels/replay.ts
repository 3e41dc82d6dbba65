// What this page has of each kernel's output. It stays while websockets come and go.

import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

/** A request that is running, or ended so recently that its output may not be in the file. */
export interface IReplayableRequest {
  id: string;
  /** The notebook's cell. */
  cell: string;
  /** The execution count, once it has ended. */
  count: number | null;
}

/** Requests whose output the server offers to a page that has none of it. */
export interface IReplayOffer {
  clientId: string;
  requests: IReplayableRequest[];
}

/** A request whose output this page has requested again. */
interface IReplayedRequest {
  /** The request, to be sent again if the connection breaks before all output has come. */
  frame: ArrayBuffer;
  /** The last number that came. */
  last: number;
}

/** The position of one kernel connection in the kernel's journal. */
export class Position {
  /** Everything up to this number has come; null: the server has not said where it begins. */
  seen: number | null = null;
  /** What the server has offered, by id. */
  readonly offered = new Map<string, IReplayableRequest>();
  readonly replays = new Map<string, IReplayedRequest>();
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
  /** Requests of other pages, whose cells this page may fill. */
  get offered(): ISignal<this, IReplayOffer> {
    return this._offered;
  }

  /** A connection has a problem, or no longer has one. */
  get connectionChanged(): ISignal<this, IConnectionState> {
    return this._connectionChanged;
  }

  /** Whether a kernel may run on a TPU. Until it is replaced: any may. */
  mayRunOnTPU: (kernelId: string) => boolean = () => true;

  position(kernelId: string, clientId: string): Position {
    const key = `${kernelId} ${clientId}`;
    let position = this._positions.get(key);
    if (!position) {
      position = new Position();
      this._positions.set(key, position);
    }
    return position;
  }

  offer(
    clientId: string,
    position: Position,
    requests: IReplayableRequest[]
  ): void {
    requests.forEach(request => position.offered.set(request.id, request));
    this._offered.emit({ clientId, requests });
  }

  setProblem(clientId: string, problem: ConnectionProblem | null): void {
    if (problem !== (this._problems.get(clientId) ?? null)) {
      if (problem) {
        this._problems.set(clientId, problem);
      } else {
        this._problems.delete(clientId);
      }
      this._connectionChanged.emit({ clientId, problem });
    }
  }

  private _connectionChanged = new Signal<this, IConnectionState>(this);
  private _offered = new Signal<this, IReplayOffer>(this);
  private _positions = new Map<string, Position>();
  private _problems = new Map<string, ConnectionProblem>();
}

export const IKernelReplay = new Token<KernelReplay>(
  'jupyter-tpu:IKernelReplay',
  'The output of kernels on TPUs that this page has received.'
);

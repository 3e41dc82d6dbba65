// What this page has of each kernel's output. It stays while websockets come and go.

import { ISignal, Signal } from '@lumino/signaling';

/** A request that runs, or ran so lately that its output may not be in the file. */
export interface IReplayableRequest {
  id: string;
  /** The notebook's cell. */
  cell: string;
  /** The execution count, once it has ended. */
  count: number | null;
}

/** Requests that the server offers to a page that has nothing yet. */
export interface IReplayOffer {
  clientId: string;
  requests: IReplayableRequest[];
}

/** A request whose output this page has asked for again. */
interface IReplay {
  /** The request, to be sent again if the connection breaks before all has come. */
  frame: ArrayBuffer;
  /** The last number that came. */
  last: number;
}

/** Where one kernel connection of this page is in the kernel's journal. */
export class Position {
  /** Everything up to this number has come; null: the server has not said where it begins. */
  seen: number | null = null;
  /** What the server has offered, by id. */
  readonly offered = new Map<string, IReplayableRequest>();
  readonly replays = new Map<string, IReplay>();
}

/** All places of this page. */
export class Positions {
  /** Requests of other pages, whose cells this page may fill. */
  get offered(): ISignal<this, IReplayOffer> {
    return this._offered;
  }

  of(kernelId: string, clientId: string): Position {
    const key = `${kernelId} ${clientId}`;
    let place = this._places.get(key);
    if (!place) {
      place = new Position();
      this._places.set(key, place);
    }
    return place;
  }

  offer(
    clientId: string,
    place: Position,
    requests: IReplayableRequest[]
  ): void {
    requests.forEach(request => place.offered.set(request.id, request));
    this._offered.emit({ clientId, requests });
  }

  private _places = new Map<string, Position>();
  private _offered = new Signal<this, IReplayOffer>(this);
}

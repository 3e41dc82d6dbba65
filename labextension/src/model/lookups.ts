// What hosts of TPUs were asked because the user wanted to know: it is not looked up by itself.

import { ITPU } from '../rest/api';
import { Failure } from '../rest/failure';
import { Store } from '../ui/store';

/** What is known of one TPU. */
export interface ILookup<T> {
  loading: boolean;
  failure: Failure | null;
  found: T | null;
}

export class Lookups<T> extends Store {
  constructor(private _ask: (tpu: ITPU) => Promise<T>) {
    super();
  }

  /** What was found on a TPU; undefined until somebody looked. */
  of(tpu: ITPU): ILookup<T> | undefined {
    return this._lookups.get(tpu.id);
  }

  /** Asks all hosts of a TPU. */
  async load(tpu: ITPU): Promise<void> {
    const before = this.of(tpu);
    if (before?.loading) {
      return;
    }
    const lookup: ILookup<T> = {
      loading: true,
      failure: null,
      found: before?.found ?? null
    };
    this._lookups.set(tpu.id, lookup);
    this.changed();
    try {
      lookup.found = await this._ask(tpu);
    } catch (error) {
      lookup.failure = Failure.from(error);
    }
    lookup.loading = false;
    this.changed();
  }

  private _lookups = new Map<string, ILookup<T>>();
}

// What hosts of TPUs were asked because the user wanted to know: it is not looked up by itself.

import { ITPU } from '../rest/api';
import { Loaded } from '../ui/loaded';

export class Lookups<T> {
  constructor(private _ask: (tpu: ITPU) => Promise<T>) {}

  /** What was found on a TPU, once somebody has asked its hosts. */
  of(tpu: ITPU): Loaded<T> {
    let lookup = this._lookups.get(tpu.id);
    if (!lookup) {
      lookup = new Loaded(() => this._ask(tpu));
      this._lookups.set(tpu.id, lookup);
    }
    return lookup;
  }

  private _lookups = new Map<string, Loaded<T>>();
}

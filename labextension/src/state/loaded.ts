// What is asked of the server when somebody looks: the last answer, or why there is none.

import { ITPU } from '../rest/api';
import { Failure } from '../rest/failure';
import { Store } from './observable';

export class Loaded<T> extends Store {
  /** *ask* throws `Failure`. */
  constructor(private _ask: () => Promise<T>) {
    super();
  }

  /** Null until it is known; it stays when loading it again fails. */
  value: T | null = null;
  failure: Failure | null = null;
  loading = false;

  async load(): Promise<void> {
    const number = (this._loads += 1);
    this.loading = true;
    this.failure = null;
    this.changed();
    try {
      const value = await this._ask();
      if (number === this._loads) {
        this.value = value;
      }
    } catch (error) {
      if (number === this._loads) {
        this.failure = Failure.from(error);
      }
    }
    if (number === this._loads) {
      this.loading = false; // else a later answer knows better
    }
    this.changed();
  }

  /** Takes what came in another way; an answer that is on its way is older. */
  put(value: T | null): void {
    this._loads += 1;
    this.loading = false;
    this.failure = null;
    this.value = value;
    this.changed();
  }

  private _loads = 0;
}

/** What the hosts of each TPU were asked because the user wanted to know: it is not looked up by itself. */
export class Lookups<T> {
  constructor(private _ask: (tpu: ITPU) => Promise<T>) {}

  /** What was found on a TPU, once somebody has asked its hosts. */
  of(tpu: ITPU): Loaded<T> {
    const lookup =
      this._lookups.get(tpu.id) ?? new Loaded(() => this._ask(tpu));
    this._lookups.set(tpu.id, lookup);
    return lookup;
  }

  private _lookups = new Map<string, Loaded<T>>();
}

// A form: its input, and why the server refused it.

import { Failure } from '../rest/failure';
import { Store } from '../state/observable';

/** A form with fields *F* keeps its input until the server has accepted it. */
export class Form<F extends object> extends Store {
  /** Its fields are *empty*'s, with the names that the server has for them. */
  constructor(private _empty: F) {
    super();
    this.filled = { ..._empty };
  }

  /** Why the server refused the last request. */
  failure: Failure | null = null;
  submitting = false;
  /** The input. */
  protected filled: F;

  /** What is shown. */
  get fields(): F {
    return this.filled;
  }

  set<K extends keyof F>(field: K, value: F[K]): void {
    if (field === this.refused) {
      this.failure = null;
    }
    this.filled = { ...this.filled, [field]: value };
    this.edited(field);
    this.changed();
  }

  /** The field that the server refused; null if its refusal is about no single one. */
  get refused(): keyof F | null {
    const field = this.failure?.field ?? '';
    return field in this.filled ? (field as keyof F) : null;
  }

  /** Why the server refused *field*; "" if it did not, or if the field was changed since. */
  problemOf(field: keyof F): string {
    return field === this.refused ? (this.failure?.message ?? '') : '';
  }

  /** Asks the server; null, with a failure and all input kept, if it refuses. One request at a time. */
  async send<A>(request: () => Promise<A>): Promise<A | null> {
    if (this.submitting) {
      return null;
    }
    this.submitting = true;
    this.failure = null;
    this.changed();
    try {
      return await request();
    } catch (error) {
      this.failure = Failure.from(error);
      return null;
    } finally {
      this.submitting = false;
      this.changed();
    }
  }

  /** Empties the form. */
  reset(): void {
    this.failure = null;
    this.filled = { ...this._empty };
    this.changed();
  }

  /** The user has edited a field, on which others may depend. */
  protected edited(field: keyof F): void {}
}

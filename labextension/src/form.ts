// What is filled in before something is asked of the server.

import { Failure } from './request';
import { Store } from './store';

/** A form keeps its input until the server has accepted it. */
export abstract class Form<T> extends Store {
  /** Why the last try was refused. */
  get failure(): Failure | null {
    return this._failure;
  }

  get submitting(): boolean {
    return this._submitting;
  }

  /** Asks the server; null, with a failure and all input kept, if it refuses. */
  async submit(): Promise<T | null> {
    if (this._submitting) {
      return null;
    }
    this._submitting = true;
    this._failure = null;
    this.changed();
    try {
      const answer = await this.ask();
      this.reset();
      return answer;
    } catch (error) {
      this._failure = Failure.from(error);
      return null;
    } finally {
      this._submitting = false;
      this.changed();
    }
  }

  /** Empties the form. */
  reset(): void {
    this._failure = null;
    this.clear();
    this.changed();
  }

  /** Throws `Failure`. */
  protected abstract ask(): Promise<T>;

  protected abstract clear(): void;

  private _failure: Failure | null = null;
  private _submitting = false;
}

/** Requirements, separated by commas or line ends, as they were typed. */
export function packagesIn(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map(one => one.trim())
    .filter(one => one !== '');
}

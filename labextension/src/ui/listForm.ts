// A form that adds to a list which is shown with it, and removes from it.

import { Loaded } from '../state/loaded';
import { Form } from './form';

/** How a list is loaded and changed. The functions throw `Failure`. */
export interface IListRequests<F, T> {
  /** The empty form. */
  empty: F;
  /** Whether all is filled in that the server needs. */
  complete: (fields: F) => boolean;
  list: () => Promise<T[]>;
  /** The answer is the whole list. */
  add: (fields: F) => Promise<T[]>;
  remove: (name: string) => Promise<void>;
}

export class ListForm<F extends object, T> extends Form<F> {
  constructor(private _requests: IListRequests<F, T>) {
    super(_requests.empty);
    this.list = new Loaded(_requests.list);
    this.list.stateChanged.connect(() => this.changed());
  }

  /** What there is. */
  readonly list: Loaded<T[]>;

  /** Whether all is filled in that the server needs. */
  get complete(): boolean {
    return this._requests.complete(this.filled);
  }

  /** Adds one, and empties the form. */
  async submit(): Promise<void> {
    await this.send(async () => {
      this.list.put(await this._requests.add(this.filled));
      this.reset();
    });
  }

  /** Removes one, and loads the list again. */
  async remove(name: string): Promise<void> {
    await this.send(() => this._requests.remove(name));
    await this.list.load();
  }
}

// A form that adds to a list which is shown with it, and removes from it.

import { Failure } from '../rest/failure';
import { Form } from './form';

export abstract class ListForm<F extends object, T> extends Form<F, T[]> {
  /** What there is; null until that is known. */
  get items(): T[] | null {
    return this._items;
  }

  /** Why the list could not be loaded. */
  get loadFailure(): Failure | null {
    return this._loadFailure;
  }

  /** Whether all is filled in that the server needs. */
  abstract get complete(): boolean;

  async load(): Promise<void> {
    const asked = (this._asked += 1);
    this._loadFailure = null;
    this.changed();
    try {
      const items = await this.list();
      if (asked === this._asked) {
        this._items = items;
      }
    } catch (error) {
      if (asked === this._asked) {
        this._loadFailure = Failure.from(error);
      }
    }
    this.changed();
  }

  /** Removes one, and loads the list again. */
  async remove(name: string): Promise<void> {
    await this.send(() => this.drop(name));
    await this.load();
  }

  protected async ask(): Promise<T[]> {
    const items = await this.add();
    this._asked += 1; // what is still loading is older
    return (this._items = items);
  }

  /** All three throw `Failure`. The answer of `add` is the whole list. */
  protected abstract list(): Promise<T[]>;
  protected abstract add(): Promise<T[]>;
  protected abstract drop(name: string): Promise<void>;

  private _asked = 0;
  private _loadFailure: Failure | null = null;
  private _items: T[] | null = null;
}

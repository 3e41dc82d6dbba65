// A form that adds to a list which is shown with it, and removes from it.

import { Failure } from '../model/client';
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

  async load(): Promise<void> {
    this._loadFailure = null;
    this.changed();
    try {
      this._items = await this.list();
    } catch (error) {
      this._loadFailure = Failure.from(error);
    }
    this.changed();
  }

  /** Removes one, and loads the list again. */
  async remove(name: string): Promise<void> {
    await this.send(() => this.drop(name));
    await this.load();
  }

  protected async ask(): Promise<T[]> {
    return (this._items = await this.add());
  }

  /** All three throw `Failure`. The answer of `add` is the whole list. */
  protected abstract list(): Promise<T[]>;
  protected abstract add(): Promise<T[]>;
  protected abstract drop(name: string): Promise<void>;

  private _loadFailure: Failure | null = null;
  private _items: T[] | null = null;
}

// A set of ids that the browser keeps, so that it is there when the page is loaded again: operations
// that the user has dismissed, jobs whose end is news.

import { KeyValueStorage, Stored } from './stored';

/** As many are kept, the newest: not all are forgotten by `retain`. */
const KEPT = 500;

export class StoredIds {
  /** *storage* is null where the browser keeps nothing. */
  constructor(storage: KeyValueStorage | null = null, key = '') {
    this._stored = new Stored(storage, key);
    this._ids = this._load();
  }

  has(id: string): boolean {
    return this._ids.has(id);
  }

  add(id: string): void {
    this._merge();
    this._ids.add(id);
    this._save();
  }

  delete(id: string): void {
    this._merge();
    if (this._ids.delete(id)) {
      this._save();
    }
  }

  /** Forgets all but *ids*, those that the server still has. */
  retain(ids: string[]): void {
    this._merge();
    const before = this._ids.size;
    this._ids = new Set(ids.filter(id => this._ids.has(id)));
    if (this._ids.size !== before) {
      this._save();
    }
  }

  /** Another tab may have stored others. */
  private _merge(): void {
    this._ids = new Set([...this._load(), ...this._ids]);
  }

  private _load(): Set<string> {
    const ids = this._stored.load();
    return new Set(Array.isArray(ids) ? ids.map(String) : []);
  }

  private _save(): void {
    this._stored.save([...this._ids].slice(-KEPT));
  }

  private _ids: Set<string>;
  private _stored: Stored;
}

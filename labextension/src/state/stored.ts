// What the browser keeps under one key, as JSON.

/** As much of localStorage as is needed. */
export type KeyValueStorage = Pick<Storage, 'getItem' | 'setItem'>;

export class Stored {
  /** *storage* is null where the browser keeps nothing. */
  constructor(
    private _storage: KeyValueStorage | null,
    private _key: string
  ) {}

  /** Null where there is nothing, no access, or something that is not JSON. */
  load(): unknown {
    try {
      return JSON.parse(this._storage?.getItem(this._key) ?? 'null');
    } catch {
      return null;
    }
  }

  /** Without access, or space, the next page starts without it. */
  save(value: unknown): void {
    try {
      this._storage?.setItem(this._key, JSON.stringify(value));
    } catch {
      // It is not kept.
    }
  }
}

// Which page of the panel is shown, and what is expanded.

import { Store } from '../state/observable';
import { StoredIds } from '../state/storedIds';

export type Shade = 'duty' | 'memory' | 'kernel';

/** The pages that show a list of the server. */
export type ListName =
  'budgets' | 'grants' | 'prices' | 'queued' | 'tokens' | 'usage';

export type Page = 'list' | 'connect' | 'create' | 'packages' | ListName;

/** The ids of what is folded end so. */
const FOLDED = '#folded';

export class ViewState extends Store {
  /** *folded* keeps what the user has folded, also when the page is loaded again. */
  constructor(private _folded = new StoredIds()) {
    super();
  }

  /** Whether the panel itself is visible. */
  visible = false;

  page: Page = 'list';

  show(page: Page): void {
    this.page = page;
    this.changed();
  }

  /** The key of a TPU whose row gets the focus when it is there; "" for none. */
  awaited = '';

  /** What colours the chips in the map of a slice. */
  shade: Shade = 'duty';

  colorBy(shade: Shade): void {
    this.shade = shade;
    this.changed();
  }

  /** By what a list is sorted; undefined for its own order. */
  sortOf(list: string): { by: string; down: boolean } | undefined {
    return this._sorts.get(list);
  }

  /** Sorts a list; again: the other way round; once more: in its own order. */
  sortBy(list: string, by: string): void {
    const now = this._sorts.get(list);
    if (now?.by !== by) {
      this._sorts.set(list, { by, down: false });
    } else if (!now.down) {
      this._sorts.set(list, { by, down: true });
    } else {
      this._sorts.delete(list);
    }
    this.changed();
  }

  /** Whether a part, or the details of an operation (by its id), are shown; or folded: `ID#folded`. */
  isOpen(id: string): boolean {
    return this._setOf(id).has(id);
  }

  open(id: string): void {
    this.fold(id, false);
  }

  toggle(id: string): void {
    this.fold(id, this.isOpen(id));
  }

  /** Hides a part, or shows it. */
  fold(id: string, folded: boolean): void {
    if (folded) {
      this._setOf(id).delete(id);
    } else {
      this._setOf(id).add(id);
    }
    this.changed();
  }

  private _setOf(id: string): StoredIds | Set<string> {
    return id.endsWith(FOLDED) ? this._folded : this._open;
  }

  private _open = new Set<string>();
  private _sorts = new Map<string, { by: string; down: boolean }>();
}

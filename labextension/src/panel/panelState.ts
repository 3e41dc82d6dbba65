// Which page of the panel is shown, and what is expanded.

import { Store } from '../ui/store';

export type Page =
  | 'connect'
  | 'create'
  | 'grants'
  | 'list'
  | 'packages'
  | 'queued'
  | 'tokens'
  | 'usage';

export class PanelState extends Store {
  /** Whether the panel itself is visible. */
  visible = false;

  get page(): Page {
    return this._page;
  }

  show(page: Page): void {
    this._page = page;
    this.changed();
  }

  /** Whether the details of a thing (a TPU's key, an operation's id) are shown. */
  isOpen(id: string): boolean {
    return this._open.has(id);
  }

  /** Shows the details of a thing. */
  open(id: string): void {
    this._open.add(id);
    this.changed();
  }

  toggle(id: string): void {
    if (!this._open.delete(id)) {
      this._open.add(id);
    }
    this.changed();
  }

  private _open = new Set<string>();
  private _page: Page = 'list';
}

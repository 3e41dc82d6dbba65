// Whether a widget can be seen: what it shows is kept up to date only then.

import { Store } from './store';

export class Visibility extends Store {
  get on(): boolean {
    return this._on;
  }

  set on(on: boolean) {
    if (on !== this._on) {
      this._on = on;
      this.changed();
    }
  }

  private _on = false;
}

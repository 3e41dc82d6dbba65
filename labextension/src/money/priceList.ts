// What chips cost: as known here, or read from Google anew.

import { IPriceList } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Loaded } from '../state/loaded';

export class PriceList extends Loaded<IPriceList> {
  constructor(requests: TPUClient['prices']) {
    super(() => (this._anew ? requests.refresh() : requests.list()));
  }

  /** Reads them from Google. */
  async update(): Promise<void> {
    this._anew = true;
    const loaded = this.load();
    this._anew = false;
    await loaded;
  }

  private _anew = false;
}

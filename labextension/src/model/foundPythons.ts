// The Pythons that were on the hosts of TPUs before those were connected, once they were looked up.

import { IFoundPythons, ITPU } from '../api';
import { Store } from '../store';
import { Failure, TPUClient } from './client';

/** What is known of one TPU's. */
export interface IFoundLookup {
  loading: boolean;
  failure: Failure | null;
  found: IFoundPythons | null;
}

export class FoundPythons extends Store {
  constructor(private _client: Pick<TPUClient, 'pythons'>) {
    super();
  }

  /** What was found on a TPU; undefined until somebody looked. */
  of(tpu: ITPU): IFoundLookup | undefined {
    return this._lookups.get(tpu.id);
  }

  /** Asks all hosts of a TPU. */
  async load(tpu: ITPU): Promise<void> {
    const before = this.of(tpu);
    if (before?.loading) {
      return;
    }
    const lookup: IFoundLookup = {
      loading: true,
      failure: null,
      found: before?.found ?? null
    };
    this._lookups.set(tpu.id, lookup);
    this.changed();
    try {
      lookup.found = await this._client.pythons(tpu);
    } catch (error) {
      lookup.failure = Failure.from(error);
    }
    lookup.loading = false;
    this.changed();
  }

  private _lookups = new Map<string, IFoundLookup>();
}

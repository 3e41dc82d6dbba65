// Memory and load of the chips of TPUs, asked for while somebody looks.

import { Poll } from '@lumino/polling';

import { IHostLoad, ITPU, ITPULoad } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store } from '../ui/store';

/** Time between two looks, and the samples of a host that are kept; ten minutes' worth. */
export const EVERY = 2000;
export const KEPT = 300;

/** What is known of one TPU. */
export interface IKnownLoad {
  load: ITPULoad | null;
  failure: Failure | null;
}

export class Loads extends Store {
  /** isSeen: whether the panel can be seen; else nothing is asked. */
  constructor(
    private _requests: TPUClient['metrics'],
    private _isSeen: () => boolean
  ) {
    super();
  }

  /** What is known of a TPU, with the samples of each host; undefined before the first answer. */
  of(tpu: ITPU): IKnownLoad | undefined {
    return this._known.get(tpu.id);
  }

  /** Asks again and again, until what is returned is called. */
  follow(tpu: ITPU): () => void {
    const poll = new Poll({
      name: `jupyter-tpu:load-${tpu.id}`,
      factory: () => this._ask(tpu),
      frequency: { interval: EVERY, backoff: true, max: 30000 },
      standby: () => (this._isSeen() ? 'when-hidden' : true)
    });
    return () => poll.dispose();
  }

  private async _ask(tpu: ITPU): Promise<void> {
    const before = this.of(tpu)?.load ?? null;
    try {
      const load = await this._requests.get(tpu, {
        from: before?.next ?? 0
      });
      load.hosts = load.hosts.map(host => joined(host, before));
      this._known.set(tpu.id, { load, failure: null });
    } catch (error) {
      this._known.set(tpu.id, { load: before, failure: Failure.from(error) });
      throw error; // the poll asks less often
    } finally {
      this.changed();
    }
  }

  private _known = new Map<string, IKnownLoad>();
}

/** A host with its samples of before. */
function joined(host: IHostLoad, before: ITPULoad | null): IHostLoad {
  const known = before?.hosts.find(one => one.host === host.host);
  const samples = [...(known?.samples ?? []), ...host.samples].slice(-KEPT);
  return { ...host, samples };
}

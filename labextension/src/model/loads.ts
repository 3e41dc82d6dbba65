// Memory and load of the chips of TPUs, asked for while somebody looks.

import { Poll } from '@lumino/polling';

import { IHostLoad, ITPU, ITPULoad } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store } from '../state/observable';

/** Milliseconds between two looks: at one TPU, and at each of a list. */
export const EVERY = 2000;
export const EVERY_IN_LIST = 15000;

/** The samples of a host that are kept: ten minutes' worth. */
export const KEPT = 300;

/** What is known of one TPU. */
export interface IKnownLoad {
  load: ITPULoad | null;
  failure: Failure | null;
}

export class Loads extends Store {
  constructor(private _requests: TPUClient['metrics']) {
    super();
  }

  /** What is known of a TPU, with the samples of each host; undefined before the first answer. */
  of(tpu: ITPU): IKnownLoad | undefined {
    return this._known.get(tpu.id);
  }

  /**
   * Asks again and again, until what is returned is called.
   *
   * @param isSeen whether the answer can be seen; else nothing is asked
   * @param interval in milliseconds
   */
  follow(tpu: ITPU, isSeen: () => boolean, interval = EVERY): () => void {
    const poll = new Poll({
      name: `jupyter-tpu:load-${tpu.id}`,
      factory: () => this._ask(tpu),
      frequency: { interval, backoff: true, max: Math.max(30000, interval) },
      standby: () => (isSeen() ? 'when-hidden' : true)
    });
    return () => poll.dispose();
  }

  /** The list and a page may follow the same TPU: one request at a time, so that no sample comes twice. */
  private async _ask(tpu: ITPU): Promise<void> {
    if (this._asking.has(tpu.id)) {
      return;
    }
    this._asking.add(tpu.id);
    const before = this.of(tpu)?.load ?? null;
    try {
      const load = await this._requests.get(tpu, { from: before?.next ?? 0 });
      load.hosts = load.hosts.map(host => joined(host, before));
      this._known.set(tpu.id, { load, failure: null });
    } catch (error) {
      this._known.set(tpu.id, { load: before, failure: Failure.from(error) });
      throw error; // the poll asks less often
    } finally {
      this._asking.delete(tpu.id);
      this.changed();
    }
  }

  private _asking = new Set<string>();
  private _known = new Map<string, IKnownLoad>();
}

/** A host with its samples of before. */
function joined(host: IHostLoad, before: ITPULoad | null): IHostLoad {
  const known = before?.hosts.find(one => one.host === host.host);
  const samples = [...(known?.samples ?? []), ...host.samples].slice(-KEPT);
  return { ...host, samples };
}

// The jobs of all TPUs, the calls that change them, and the news that one has ended.

import { Signal } from '@lumino/signaling';

import { Resources, TPURef } from '../model/resources';
import { StoredIds } from '../model/storedIds';
import { TPURequests } from '../model/tpuRequests';
import { IJob, IStartJob } from '../rest/api';
import { TPUClient } from '../rest/client';

/** Whether nothing happens to a job any more, as far as known. */
export function isOver(job: IJob): boolean {
  return ['ended', 'failed', 'lost', 'stopped'].includes(job.state);
}

export class Jobs {
  /** unfinished: the jobs whose end is news, also for the next page. */
  constructor(
    private _client: TPUClient,
    private _resources: Resources,
    private _requests: TPURequests,
    private _unfinished: StoredIds,
    private _onChange: () => void
  ) {}

  /** A job has ended that was seen unfinished, by this page or an earlier one. */
  readonly ended = new Signal<this, IJob>(this);

  /** The jobs of a TPU, the newest first. */
  of(tpu: TPURef): IJob[] {
    return this._resources.jobs(tpu).reverse();
  }

  find(id: string): IJob | undefined {
    return this._resources.allJobs.get(id);
  }

  /** Says which jobs have ended since; called when the resources have changed. */
  follow(): void {
    const jobs = [...this._resources.allJobs.values()];
    this._unfinished.retain(jobs.map(one => one.id));
    for (const job of jobs) {
      const isKnown = this._unfinished.has(job.id);
      if (!isOver(job) && !isKnown) {
        this._unfinished.add(job.id);
      } else if (isOver(job) && isKnown) {
        this._unfinished.delete(job.id);
        this.ended.emit(job);
      }
    }
  }

  /** Throws `Failure`, for the dialog to show. */
  async begin(tpu: TPURef, request: IStartJob): Promise<void> {
    const job = await this._client.jobs.start(tpu, request);
    this._resources.allJobs.set(job.id, job);
    this._onChange();
  }

  // These return whether the request was accepted; if not, the model's `failure` says why.

  stop(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      const job = await this._client.jobs.stop(tpu, id);
      this._resources.allJobs.set(id, job);
    });
  }

  remove(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this._client.jobs.remove(tpu, id);
      this._resources.allJobs.delete(id);
    });
  }
}

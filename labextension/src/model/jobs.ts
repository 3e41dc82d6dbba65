// The jobs of all TPUs, the calls that change them, and the news that one has ended.

import { Signal } from '@lumino/signaling';

import { IJob, IStartJob } from '../rest/api';
import { TPUClient } from '../rest/client';
import { TPURef } from '../rest/tpuRef';
import { StoredIds } from '../state/storedIds';
import { Resources } from './resources';

/** Whether nothing happens to a job any more, as far as known. */
export function isOver(job: IJob): boolean {
  return ['ended', 'failed', 'lost', 'stopped'].includes(job.state);
}

/** What is one piece of news of a running job: that it has failed on a host, or is silent. */
export function noticeOf(job: IJob): string {
  const { hosts, number } = job.attempts[job.attempts.length - 1];
  const failed = hosts.some(
    ({ exit_code, leaving_since, state }) =>
      leaving_since ||
      ['failed', 'lost'].includes(state) ||
      (state === 'ended' && exit_code)
  );
  return `job ${job.id} ${number} ${failed ? 'failed' : 'silent'}`;
}

/** The jobs of a TPU that have not ended, the newest first. */
export function runningJobs(resources: Resources, tpu: TPURef): IJob[] {
  return resources
    .jobsOf(tpu)
    .filter(one => !isOver(one))
    .reverse();
}

/** What they need of the model. */
interface IJobModel extends Resources {
  readonly client: Pick<TPUClient, 'jobs'>;
  keep(made: { job: IJob }): void;
  send(
    tpu: TPURef,
    request: (client: Pick<TPUClient, 'jobs'>) => Promise<void>
  ): Promise<boolean>;
}

export class Jobs {
  /** unfinished: the jobs whose end is news, also for the next page. */
  constructor(
    private _model: IJobModel,
    private _unfinished: StoredIds
  ) {}

  /** A job has ended that was seen unfinished, by this page or an earlier one. */
  readonly ended = new Signal<this, IJob>(this);

  /** The jobs of a TPU, the newest first. */
  of(tpu: TPURef): IJob[] {
    return this._model.jobsOf(tpu).reverse();
  }

  /** Says which jobs have ended since; called when the resources have changed. */
  follow(): void {
    const jobs = [...this._model.allJobs.values()];
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
    const job = await this._model.client.jobs.start(tpu, request);
    this._model.keep({ job });
  }

  // These return whether the request was accepted; if not, the model's `failure` says why.

  stop(tpu: TPURef, id: string): Promise<boolean> {
    return this._model.send(tpu, async client => {
      this._model.allJobs.set(id, await client.jobs.stop(tpu, id));
    });
  }

  remove(tpu: TPURef, id: string): Promise<boolean> {
    return this._model.send(tpu, async client => {
      await client.jobs.remove(tpu, id);
      this._model.allJobs.delete(id);
    });
  }
}

// The output of a job on one host: what was read of it, and what comes.

import { IJobLine, IJobLog } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { TPURef } from '../rest/tpuRef';
import { Store } from '../state/observable';

/** Lines that are read first, from the end; and the most that are kept. */
const TAIL = 2000;
const MOST = 10_000;
/** Seconds that the server waits for a line. */
const WAIT = 20;
/** Milliseconds after the last key before what was typed is looked for. */
const TYPING = 300;
/** Milliseconds before the next attempt after a failure. */
const PAUSE = 3000;

/** Which part is read. */
export interface IPart {
  /** null: the first host of the job. */
  host: number | null;
  /** null: the current one. */
  attempt: number | null;
  /** Only lines with this text. */
  search: string;
  /** The number of the first line; null: the last lines. */
  from: number | null;
}

/** Follows the output until it is disposed of. */
export class JobOutput extends Store {
  constructor(
    private _client: TPUClient,
    private _tpu: TPURef,
    private _job: string
  ) {
    super();
    this.show({});
  }

  dispose(): void {
    clearTimeout(this._timer);
    this._reading.abort();
    super.dispose();
  }

  /** The last answer; null: none yet. */
  log: IJobLog | null = null;

  /** The lines that were read, the oldest first. */
  lines: readonly IJobLine[] = [];

  /** Why nothing can be read now. It is tried again. */
  failure: Failure | null = null;

  part: IPart = { attempt: null, from: null, host: null, search: '' };

  /** Whether reading has stopped before the end, at the most lines that are shown. */
  isCut = false;

  /** Reads another part instead. */
  show(change: Partial<IPart>): void {
    this.part = { ...this.part, ...change };
    this.lines = [];
    this.log = null;
    this.isCut = false;
    this.failure = null;
    this._reading.abort();
    this._reading = new AbortController();
    this.changed();
    void this._read(this._reading.signal);
  }

  /** As `show`, when the user has stopped typing. */
  showLater(change: Partial<IPart>): void {
    this._typed = { ...this._typed, ...change };
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this.show(this._typed);
      this._typed = {};
    }, TYPING);
  }

  private async _read(signal: AbortSignal): Promise<void> {
    const { attempt, from, host, search } = this.part;
    let next = from ?? (search ? 1 : -TAIL);
    while (!signal.aborted) {
      try {
        const query = {
          attempt: attempt ?? undefined,
          host: host ?? undefined,
          from: next,
          search,
          wait: this.log ? WAIT : 0,
          partial_out: this.log?.partial_out ?? '',
          partial_err: this.log?.partial_err ?? ''
        };
        const log = await this._client.jobs.log(
          this._tpu,
          this._job,
          query,
          signal
        );
        if (signal.aborted) {
          return;
        }
        this.failure = null;
        this.log = log;
        this._add(log.lines);
        next = log.next;
        this.changed();
        if (log.complete || this.isCut) {
          return;
        }
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        this.failure = Failure.from(error);
        this.changed();
        if (this.failure.reason === 'NOT_FOUND') {
          return; // it was removed
        }
        await new Promise(resolve => setTimeout(resolve, PAUSE));
      }
    }
  }

  /** The last lines are kept or, from a chosen one on, the first. */
  private _add(lines: IJobLine[]): void {
    if (lines.length > 0) {
      const all = [...this.lines, ...lines];
      this.isCut = this.part.from !== null && all.length > MOST;
      this.lines = this.isCut ? all.slice(0, MOST) : all.slice(-MOST);
    }
  }

  private _reading = new AbortController();
  private _timer?: ReturnType<typeof setTimeout>;
  private _typed: Partial<IPart> = {};
}

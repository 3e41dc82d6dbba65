// The output of a job on one host: what was read of it, and what comes.

import { TPURef } from '../model/resources';
import { IJobLine, IJobLog } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store } from '../ui/store';

/** Lines that are read first, from the end; and the most that are kept. */
const TAIL = 2000;
const MOST = 10_000;
/** Seconds that the server waits for a line. */
const WAIT = 20;
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
    this._reading.abort();
    super.dispose();
  }

  /** The last answer; null: none yet. */
  get log(): IJobLog | null {
    return this._log;
  }

  /** The lines that were read, the oldest first. */
  get lines(): readonly IJobLine[] {
    return this._lines;
  }

  /** Why nothing can be read now. It is tried again. */
  get failure(): Failure | null {
    return this._failure;
  }

  get part(): IPart {
    return this._part;
  }

  /** Whether reading has stopped before the end, at the most lines that are shown. */
  get isCut(): boolean {
    return this._isCut;
  }

  /** Reads another part instead. */
  show(change: Partial<IPart>): void {
    this._part = { ...this._part, ...change };
    this._lines = [];
    this._log = null;
    this._isCut = false;
    this._failure = null;
    this._reading.abort();
    this._reading = new AbortController();
    this.changed();
    void this._read(this._reading.signal);
  }

  private async _read(signal: AbortSignal): Promise<void> {
    const { attempt, from, host, search } = this._part;
    const which = Object.entries({ attempt, host })
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, `${value}`]);
    let next = from ?? (search ? 1 : -TAIL);
    while (!signal.aborted) {
      try {
        const query = {
          ...Object.fromEntries(which),
          from: `${next}`,
          search,
          wait: `${this._log ? WAIT : 0}`,
          partial_out: this._log?.partial_out ?? '',
          partial_err: this._log?.partial_err ?? ''
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
        this._failure = null;
        this._log = log;
        this._add(log.lines);
        next = log.next;
        this.changed();
        if (log.complete || this._isCut) {
          return;
        }
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        this._failure = Failure.from(error);
        this.changed();
        if (this._failure.reason === 'NOT_FOUND') {
          return; // it was removed
        }
        await new Promise(resolve => setTimeout(resolve, PAUSE));
      }
    }
  }

  /** The last lines are kept or, from a chosen one on, the first. */
  private _add(lines: IJobLine[]): void {
    if (lines.length > 0) {
      const all = [...this._lines, ...lines];
      this._isCut = this._part.from !== null && all.length > MOST;
      this._lines = this._isCut ? all.slice(0, MOST) : all.slice(-MOST);
    }
  }

  private _failure: Failure | null = null;
  private _isCut = false;
  private _lines: readonly IJobLine[] = [];
  private _log: IJobLog | null = null;
  private _part: IPart = { attempt: null, from: null, host: null, search: '' };
  private _reading = new AbortController();
}

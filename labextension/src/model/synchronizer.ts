// Keeps the page's resources up to date: by the server's events or, while they don't arrive, by polling.

import { Poll } from '@lumino/polling';
import { Signal } from '@lumino/signaling';

import {
  IChange,
  IFleetStatus,
  IKernel,
  IOperation,
  IProblem
} from '../rest/api';
import { Failure } from '../rest/failure';
import { FleetRequests } from '../rest/requests';
import { StoredIds } from '../state/storedIds';
import { IChangeFeed } from './changeFeed';
import { Resources } from './resources';

/**
 * loading: no answer yet; ready: there is a list; missing: the server extension is not enabled;
 * failed: the list could not be loaded.
 */
export type Phase = 'loading' | 'ready' | 'missing' | 'failed';

/** Seconds between two polls: when nothing is running, when something is, and after failures. */
export const POLL = { idle: 20, busy: 4, max: 120 };

/** Milliseconds to wait for events before polling. */
const EVENT_TIMEOUT = 2000;

/** Emits `stateChanged` when the resources, the phase or the problem have changed. */
export class Synchronizer extends Resources {
  /** Disposes of *changes* with itself. */
  constructor(
    private _requests: FleetRequests,
    private _changes: IChangeFeed,
    dismissed = new StoredIds()
  ) {
    super(dismissed);
    _changes.changed.connect(this._onChange, this);
    _changes.connectedChanged.connect(this._onConnectedChanged, this);
    // Only without events, and not while the page is hidden.
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:model',
      factory: () => this._fetch(),
      frequency: { interval: POLL.idle * 1000, max: POLL.max * 1000 },
      linger: 0,
      standby: 'when-hidden'
    });
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearTimeout(this._eventTimer);
      this._poll.dispose();
      this._changes.dispose();
      super.dispose();
    }
  }

  /** Loads everything once; then follows the events, or polls. */
  open(): void {
    this._onConnectedChanged(this._changes, this._changes.connected);
  }

  phase: Phase = 'loading';
  /** Whether the server is asked again and again, since its events don't arrive. */
  polling = false;
  /** What does not work in the server's own loops; null while that is not known. */
  status: IFleetStatus | null = null;
  /** Whether the list is being loaded because the user asked for it. */
  refreshing = false;
  /** The server's kernelspecs may have changed. To be emitted when a request has changed them. */
  readonly kernelspecsChanged = new Signal<this, void>(this);
  /** An operation has ended. */
  readonly operationEnded = new Signal<this, IOperation>(this);
  /** What the model does not keep has changed. */
  readonly unlistedChanged = new Signal<this, IChange>(this);
  /** A kernel died unexpectedly. */
  readonly kernelProblem = new Signal<this, IKernel>(this);

  /** Why there is no list, or why it may be incomplete. */
  get problem(): IProblem | Failure | null {
    return this._failure ?? this._problem;
  }

  /** Loads everything again; *asked* by the user, who sees it. */
  async refresh(asked = true): Promise<void> {
    this.refreshing = asked;
    this.updated();
    try {
      await this._fetch(asked);
    } catch {
      // `problem` says why.
    } finally {
      this.refreshing = false;
      this.updated();
    }
  }

  private async _fetch(fresh = false): Promise<void> {
    const fetch = (this._fetches += 1);
    // An event may overtake the answer: events from now on are applied once more after it.
    this._pendingChanges = [];
    try {
      const [list, operations, hunts, jobs, tunnels, apps, status] =
        await Promise.all([
          this._requests.tpus({ fresh: fresh || undefined }),
          this._requests.operations.list(),
          this._requests.hunts.list(),
          this._requests.jobs.all(),
          this._requests.tunnels.all(),
          this._requests.apps.list(),
          // The list is worth showing without it.
          this._requests.status().catch(() => null)
        ]);
      if (fetch === this._fetches && !this.isDisposed) {
        this.allTunnels.fill(tunnels);
        this.allApps.fill(apps);
        this.hunts.fill(hunts);
        this.allJobs.fill(jobs);
        this._emitEnded(this.replaceAll(list.tpus, operations));
        this._problem = list.problem;
        this.status = status;
        this._failure = null;
        this.phase = 'ready';
        this._pendingChanges.forEach(change => this._apply(change));
      }
    } catch (error) {
      if (fetch === this._fetches) {
        this._failure = Failure.from(error);
        // An old list is better than none.
        if (this._failure.reason === 'MISSING') {
          this.phase = 'missing';
        } else if (this.phase !== 'ready') {
          this.phase = 'failed';
        }
      }
      throw error;
    } finally {
      if (fetch === this._fetches) {
        this._pendingChanges = null;
        this._setPollInterval();
        this._checkKernelspecs();
        this.updated();
      }
    }
  }

  private _onConnectedChanged(_: IChangeFeed, connected: boolean): void {
    clearTimeout(this._eventTimer);
    if (connected) {
      this.polling = false;
      void this._poll.stop();
      // Events from before the socket opened are missing.
      void this.refresh(false);
    } else {
      this._eventTimer = setTimeout(() => {
        this.polling = true;
        void this._poll.start();
        this.updated();
      }, EVENT_TIMEOUT);
    }
  }

  private _onChange(_: IChangeFeed, change: IChange): void {
    const { kernel, what } = change;
    if (['budgets', 'grant', 'prices', 'queued', 'session'].includes(what)) {
      this.unlistedChanged.emit(change);
      return;
    }
    if (kernel?.problem && !change.gone) {
      this.kernelProblem.emit(kernel);
    }
    this._pendingChanges?.push(change);
    this._apply(change);
    this._checkKernelspecs();
    this.updated();
  }

  /** Adds or updates one operation, such as a call's answer. */
  putOperation(operation: IOperation): void {
    this._emitEnded(this.put(operation));
    this._setPollInterval();
    this.updated();
  }

  /** The resources, or what is said of them, have changed. */
  protected updated(): void {
    this.changed();
  }

  private _apply(change: IChange): void {
    this._emitEnded(this.apply(change));
    this._setPollInterval();
  }

  private _emitEnded(ended: IOperation[]): void {
    for (const operation of ended) {
      // A TPU may disappear a moment before its kernelspecs do.
      this.kernelspecsChanged.emit();
      this.operationEnded.emit(operation);
    }
  }

  /** Emits a signal when the set of ready environments has changed. */
  private _checkKernelspecs(): void {
    const now = this.kernelspecs;
    if (now !== this._kernelspecs) {
      this._kernelspecs = now;
      this.kernelspecsChanged.emit();
    }
  }

  private _setPollInterval(): void {
    const busy = this.running.length > 0;
    const interval = (busy ? POLL.busy : POLL.idle) * 1000;
    if (this._poll.frequency.interval !== interval) {
      this._poll.frequency = { ...this._poll.frequency, interval };
    }
  }

  /** Changes since the current fetch began. */
  private _pendingChanges: IChange[] | null = null;
  private _failure: Failure | null = null;
  private _fetches = 0;
  private _kernelspecs = '';
  private _eventTimer?: ReturnType<typeof setTimeout>;
  private _poll: Poll;
  private _problem: IProblem | null = null;
}

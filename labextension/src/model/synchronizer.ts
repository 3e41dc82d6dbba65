// What the server knows of TPUs and operations, kept up to date by its events.

import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import {
  IApp,
  IChange,
  IKernel,
  IOperation,
  IProblem,
  ITPU,
  ITunnel
} from '../api';
import { IChangeFeed } from './changeFeed';
import { Resources } from './resources';
import { Failure, TPURef, TPUClient } from './client';
import { Store } from '../store';

/**
 * loading: nothing is known yet; ready: there is a list; missing: there is no server extension;
 * failed: the list could not be had.
 */
export type Phase = 'loading' | 'ready' | 'missing' | 'failed';

/** Seconds between two looks at the list while events don't flow. */
const POLL = { calm: 20, busy: 4, most: 120 };

/** Milliseconds that events may take to flow (again) before the model polls. */
const EVENT_TIMEOUT = 2000;

/** TPUs, operations and kernels as last told; what changes them is a subclass's. */
export class Synchronizer extends Store {
  /** The model disposes of *changes*. */
  constructor(
    protected server: TPUClient,
    private _changes: IChangeFeed
  ) {
    super();
    _changes.changed.connect(this._onChange, this);
    _changes.connectedChanged.connect(this._onConnectedChanged, this);
    // Only while events don't flow, and not while nobody looks.
    this._poll = new Poll({
      auto: false,
      name: 'jupyter-tpu:model',
      factory: () => this._fetch(),
      frequency: { interval: POLL.calm * 1000, max: POLL.most * 1000 },
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

  /** Asks for everything once; events (or a slow poll) do the rest. */
  open(): void {
    this._onConnectedChanged(this._changes, this._changes.connected);
  }

  get phase(): Phase {
    return this._phase;
  }

  /** Why there is no list, or why it may be incomplete. */
  get problem(): IProblem | Failure | null {
    return this._failure ?? this._problem;
  }

  /** Whether a list is being asked for on the user's wish. */
  get refreshing(): boolean {
    return this._refreshing;
  }

  /** By name, then zone. */
  get tpus(): ITPU[] {
    return this.known.tpus;
  }

  tpu(key: string): ITPU | undefined {
    return this.known.tpu(key);
  }

  /** Newest first, without those that were dismissed. */
  get operations(): IOperation[] {
    return this.known.operations;
  }

  operation(id: string): IOperation | undefined {
    return this.known.operation(id);
  }

  operationsOf(tpu: TPURef): IOperation[] {
    return this.operations.filter(
      operation => operation.tpu === tpu.name && operation.zone === tpu.zone
    );
  }

  /** The kernels on a TPU as last asked for. */
  kernels(tpu: TPURef): IKernel[] {
    return this.known.kernels(tpu);
  }

  /** The tunnels to a TPU, the oldest first. */
  tunnels(tpu: TPURef): ITunnel[] {
    return this.known.tunnels(tpu);
  }

  /** The pages of its hosts that are open, the oldest first. */
  apps(tpu: TPURef): IApp[] {
    return this.known.apps(tpu);
  }

  /** Whether an app that was there is no longer, as far as is known. */
  isGone(app: string): boolean {
    return this._phase === 'ready' && !this.known.hasApp(app);
  }

  /** The kernelspecs on the server may not be those of a moment ago. */
  get kernelspecsChanged(): ISignal<this, void> {
    return this._kernelspecsChanged;
  }

  /** An operation that ran here has come to its end. */
  get operationEnded(): ISignal<this, IOperation> {
    return this._operationEnded;
  }

  /**
   * A kernel is dead, and nobody wished it, or it holds the chips that another one needs: its
   * problem says which.
   */
  get kernelProblem(): ISignal<this, IKernel> {
    return this._kernelProblem;
  }

  /** Asks for everything again. */
  async refresh(): Promise<void> {
    this._refreshing = true;
    this.changed();
    try {
      await this._fetch();
    } catch {
      // What went wrong is the model's problem, and shown.
    } finally {
      this._refreshing = false;
      this.changed();
    }
  }

  private async _fetch(): Promise<void> {
    const fetch = (this._fetches += 1);
    // An event may overtake the answer, which is then the older of the two: what arrives from now
    // on is applied once more after it.
    this._pendingChanges = [];
    try {
      const [list, operations, tunnels, apps] = await Promise.all([
        this.server.tpus(),
        this.server.operations(),
        this.server.tunnels(),
        this.server.apps()
      ]);
      if (fetch === this._fetches && !this.isDisposed) {
        this.known.setPorts(tunnels, apps);
        this._emitEnded(this.known.replace(list.tpus, operations));
        this._problem = list.problem;
        this._failure = null;
        this._phase = 'ready';
        this._pendingChanges.forEach(change => this.apply(change));
      }
    } catch (error) {
      if (fetch === this._fetches) {
        this._failure = Failure.from(error);
        // A list that is there is better than none.
        if (this._failure.reason === 'MISSING') {
          this._phase = 'missing';
        } else if (this._phase !== 'ready') {
          this._phase = 'failed';
        }
      }
      throw error;
    } finally {
      if (fetch === this._fetches) {
        this._pendingChanges = null;
        this._setPollInterval();
        this._checkKernelspecs();
        this.changed();
      }
    }
  }

  private _onConnectedChanged(_: IChangeFeed, connected: boolean): void {
    clearTimeout(this._eventTimer);
    if (connected) {
      void this._poll.stop();
      // What happened before the socket opened was told to nobody.
      void this.refresh();
    } else {
      this._eventTimer = setTimeout(
        () => void this._poll.start(),
        EVENT_TIMEOUT
      );
    }
  }

  private _onChange(_: IChangeFeed, change: IChange): void {
    const { kernel } = change;
    if (kernel?.problem && !change.gone) {
      this._kernelProblem.emit(kernel);
      if (kernel.problem.reason === 'CHIPS_HELD') {
        return; // it is as it was: this is only said
      }
    }
    this._pendingChanges?.push(change);
    this.apply(change);
    this._checkKernelspecs();
    this.changed();
  }

  protected apply(change: IChange): void {
    this._emitEnded(this.known.apply(change));
    this._setPollInterval();
  }

  protected putOperation(operation: IOperation): void {
    this._emitEnded(this.known.put(operation));
    this._setPollInterval();
  }

  private _emitEnded(ended: IOperation[]): void {
    for (const operation of ended) {
      // A TPU may vanish a moment before its kernelspecs do.
      this._kernelspecsChanged.emit();
      this._operationEnded.emit(operation);
    }
  }

  /** Says once when the set of ready environments is another one. */
  private _checkKernelspecs(): void {
    const now = this.known.kernelspecs;
    if (now !== this._kernelspecs) {
      this._kernelspecs = now;
      this._kernelspecsChanged.emit();
    }
  }

  private _setPollInterval(): void {
    const interval = (this.known.busy ? POLL.busy : POLL.calm) * 1000;
    if (this._poll.frequency.interval !== interval) {
      this._poll.frequency = { ...this._poll.frequency, interval };
    }
  }

  protected known = new Resources();

  /** Changes since the fetch that is under way began. */
  private _pendingChanges: IChange[] | null = null;
  private _failure: Failure | null = null;
  private _fetches = 0;
  private _kernelProblem = new Signal<this, IKernel>(this);
  private _kernelspecs = '';
  private _kernelspecsChanged = new Signal<this, void>(this);
  private _operationEnded = new Signal<this, IOperation>(this);
  private _eventTimer?: ReturnType<typeof setTimeout>;
  private _phase: Phase = 'loading';
  private _poll: Poll;
  private _problem: IProblem | null = null;
  private _refreshing = false;
}

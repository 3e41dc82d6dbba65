// What the server knows of TPUs and operations, kept up to date by its events; and every call.

import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import {
  IApp,
  IAppVisit,
  ICatalog,
  IChange,
  IConnectTPU,
  ICreateTPU,
  IKernel,
  IOpenApp,
  IOpenTunnel,
  IOperation,
  IProblem,
  ITPU,
  ITunnel
} from './api';
import { IChanges } from './events';
import { keyOf, Known } from './known';
import { Failure, TPURef, TPUServer } from './request';
import { Store } from './store';

/**
 * loading: nothing is known yet; ready: there is a list; missing: there is no server extension;
 * failed: the list could not be had.
 */
export type Phase = 'loading' | 'ready' | 'missing' | 'failed';

/** Seconds between two looks at the list while events don't flow. */
const POLL = { calm: 20, busy: 4, most: 120 };

/** Milliseconds that events may take to flow (again) before the model polls. */
const PATIENCE = 2000;

/** TPUs, operations and kernels, and every call that changes them. */
export class TPUModel extends Store {
  /** The model disposes of *changes*. */
  constructor(
    private _server: TPUServer,
    private _changes: IChanges
  ) {
    super();
    _changes.changed.connect(this._onChange, this);
    _changes.flowingChanged.connect(this._onFlowing, this);
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
      clearTimeout(this._patience);
      this._poll.dispose();
      this._changes.dispose();
      super.dispose();
    }
  }

  /** Asks for everything once; events (or a slow poll) do the rest. */
  open(): void {
    this._onFlowing(this._changes, this._changes.flowing);
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
    return this._known.tpus;
  }

  tpu(key: string): ITPU | undefined {
    return this._known.tpu(key);
  }

  /** Newest first, without those that were dismissed. */
  get operations(): IOperation[] {
    return this._known.operations;
  }

  operation(id: string): IOperation | undefined {
    return this._known.operation(id);
  }

  operationsOf(tpu: TPURef): IOperation[] {
    return this.operations.filter(
      operation => operation.tpu === tpu.name && operation.zone === tpu.zone
    );
  }

  /** What one may create and where; null until it was loaded. */
  get catalog(): ICatalog | null {
    return this._catalog;
  }

  /** Why there is no catalog. */
  get catalogFailure(): Failure | null {
    return this._catalogFailure;
  }

  /** The kernels on a TPU as last asked for. */
  kernels(tpu: TPURef): IKernel[] {
    return this._known.kernels(tpu);
  }

  /** The tunnels to a TPU, the oldest first. */
  tunnels(tpu: TPURef): ITunnel[] {
    return this._known.tunnels(tpu);
  }

  /** The pages of its hosts that are open, the oldest first. */
  apps(tpu: TPURef): IApp[] {
    return this._known.apps(tpu);
  }

  /** Whether an app that was there is no longer, as far as is known. */
  isGone(app: string): boolean {
    return this._phase === 'ready' && !this._known.hasApp(app);
  }

  /** The last thing that was asked of a TPU and refused. */
  failure(tpu: TPURef): Failure | undefined {
    return this._failures.get(keyOf(tpu));
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
  get kernelTrouble(): ISignal<this, IKernel> {
    return this._kernelTrouble;
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

  /** Loads the catalog, if it is not here yet or was incomplete. */
  async loadCatalog(): Promise<void> {
    if (this._catalog && !this._catalog.problem) {
      return;
    }
    this._catalogFailure = null;
    try {
      this._catalog = await this._server.catalog();
    } catch (error) {
      this._catalogFailure = Failure.from(error);
    }
    this.changed();
  }

  /** Throws `Failure`, for the form to show. */
  async create(wanted: ICreateTPU): Promise<IOperation> {
    const operation = await this._server.create(wanted);
    this._wanted.set(operation.id, wanted);
    this._putOperation(operation);
    this.changed();
    return operation;
  }

  /** Throws `Failure`, for the form to show. */
  async connectWith(tpu: TPURef, wanted: IConnectTPU): Promise<void> {
    this._putOperation(await this._server.connect(tpu, wanted));
    this.changed();
  }

  /** What an operation that was started here was asked to create. */
  wanted(operation: IOperation): ICreateTPU | undefined {
    return this._wanted.get(operation.id);
  }

  // Of these, what goes wrong is kept as the TPU's failure. They tell whether all went well.

  start(tpu: TPURef): Promise<boolean> {
    return this._act(tpu, () => this._server.start(tpu));
  }

  stop(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._act(tpu, () => this._server.stop(tpu, how));
  }

  connect(tpu: TPURef, wanted: IConnectTPU = {}): Promise<boolean> {
    return this._act(tpu, () => this._server.connect(tpu, wanted));
  }

  disconnect(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._act(tpu, () => this._server.disconnect(tpu, how));
  }

  delete(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._act(tpu, () => this._server.delete(tpu, how));
  }

  endKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._act(tpu, async () => {
      await this._server.endKernel(tpu, id);
      this._known.setKernels(
        tpu,
        this.kernels(tpu).filter(kernel => kernel.id !== id)
      );
    });
  }

  takeKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._act(tpu, () => this._server.takeKernel(tpu, id));
  }

  /** Asks which kernels run on a TPU. Throws `Failure`. */
  async loadKernels(tpu: TPURef): Promise<IKernel[]> {
    const kernels = await this._server.kernels(tpu);
    this._known.setKernels(tpu, kernels);
    this.changed();
    return kernels;
  }

  newTunnel(tpu: TPURef, wanted: IOpenTunnel): Promise<boolean> {
    return this._act(tpu, async () => {
      this._known.putTunnel(await this._server.openTunnel(tpu, wanted));
    });
  }

  closeTunnel(tpu: TPURef, id: string): Promise<boolean> {
    return this._act(tpu, async () => {
      await this._server.closeTunnel(tpu, id);
      this._known.dropPort(id);
    });
  }

  /** Throws `Failure`, for the tab to show. */
  async openApp(tpu: TPURef, wanted: IOpenApp): Promise<IApp> {
    const app = await this._server.openApp(tpu, wanted);
    this._known.putApp(app);
    this.changed();
    return app;
  }

  /** What a page of *framedBy* (an origin; "" for a window) opens an app with. Throws `Failure`. */
  visitApp(id: string, framedBy: string): Promise<IAppVisit> {
    return this._server.visitApp(id, { framed_by: framedBy });
  }

  closeApp(tpu: TPURef, id: string): Promise<boolean> {
    return this._act(tpu, async () => {
      await this._server.closeApp(id);
      this._known.dropPort(id);
    });
  }

  /** Opens TensorBoard and waits for it, telling how far it is. Throws `Failure`. */
  async openTensorBoard(
    tpu: TPURef,
    logdir: string,
    host: number,
    tell: (operation: IOperation) => void
  ): Promise<IApp> {
    const operation = await this._server.openTensorBoard(tpu, { logdir, host });
    return this._appOf(operation, tell);
  }

  /** Traces a kernel and gives the TensorBoard that shows the trace; null if that failed. */
  async profile(
    tpu: TPURef,
    kernel: string,
    seconds: number
  ): Promise<IApp | null> {
    let operation: IOperation | undefined;
    const done = await this._act(tpu, async () => {
      operation = await this._server.profile(tpu, kernel, { seconds });
      return operation;
    });
    try {
      return done && operation ? await this._appOf(operation) : null;
    } catch {
      return null; // the operation says it
    }
  }

  async cancel(operation: IOperation): Promise<void> {
    this._cancelling.add(operation.id);
    await this._act({ name: operation.tpu, zone: operation.zone }, () =>
      this._server.cancel(operation.id)
    );
    this._cancelling.delete(operation.id);
    this.changed();
  }

  /** Whether it was asked to stop and has not yet. */
  isCancelling(operation: IOperation): boolean {
    return this._cancelling.has(operation.id) && operation.state === 'running';
  }

  /** Loads an operation's whole log. */
  async loadLog(id: string): Promise<void> {
    try {
      this._putOperation(await this._server.operation(id));
    } catch {
      // The server has forgotten it; what is known of it stays.
      return;
    }
    this.changed();
  }

  /** Shows no more of an operation that has ended. */
  dismiss(id: string): void {
    this._known.dismiss(id);
    this.changed();
  }

  dismissFailure(tpu: TPURef): void {
    this._failures.delete(keyOf(tpu));
    this.changed();
  }

  /** Waits for the end of an operation, and gives the app that it has opened. */
  private async _appOf(
    begun: IOperation,
    tell: (operation: IOperation) => void = () => undefined
  ): Promise<IApp> {
    this._putOperation(begun);
    this.changed();
    const ended = await new Promise<IOperation>(resolve => {
      const look = () => {
        const now = this.operation(begun.id) ?? begun;
        if (now.state === 'running' && !this.isDisposed) {
          tell(now);
        } else {
          this.stateChanged.disconnect(look);
          resolve(now);
        }
      };
      this.stateChanged.connect(look);
      look();
    });
    const { problem } = ended;
    if (problem) {
      throw new Failure(problem.message, problem.reason, problem.hint);
    }
    const apps = await this._server.apps();
    const app = apps.find(one => one.id === ended.app);
    if (!app) {
      throw new Failure('It was closed meanwhile.', 'NOT_FOUND');
    }
    this._known.putApp(app);
    this.changed();
    return app;
  }

  private async _act(
    tpu: TPURef,
    call: () => Promise<IOperation | void>
  ): Promise<boolean> {
    const key = keyOf(tpu);
    this._failures.delete(key);
    this.changed();
    try {
      const operation = await call();
      if (operation) {
        this._putOperation(operation);
      }
    } catch (error) {
      this._failures.set(key, Failure.from(error));
      return false;
    } finally {
      this.changed();
    }
    return true;
  }

  private async _fetch(): Promise<void> {
    const fetch = (this._fetches += 1);
    // An event may overtake the answer, which is then the older of the two: what arrives from now
    // on is applied once more after it.
    this._arrived = [];
    try {
      const [list, operations, tunnels, apps] = await Promise.all([
        this._server.tpus(),
        this._server.operations(),
        this._server.tunnels(),
        this._server.apps()
      ]);
      if (fetch === this._fetches && !this.isDisposed) {
        this._known.setPorts(tunnels, apps);
        this._tellEnds(this._known.replace(list.tpus, operations));
        this._problem = list.problem;
        this._failure = null;
        this._phase = 'ready';
        this._arrived.forEach(change => this._apply(change));
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
        this._arrived = null;
        this._setPollInterval();
        this._noteKernelspecs();
        this.changed();
      }
    }
  }

  private _onFlowing(_: IChanges, flowing: boolean): void {
    clearTimeout(this._patience);
    if (flowing) {
      void this._poll.stop();
      // What happened before the socket opened was told to nobody.
      void this.refresh();
    } else {
      this._patience = setTimeout(() => void this._poll.start(), PATIENCE);
    }
  }

  private _onChange(_: IChanges, change: IChange): void {
    const { kernel } = change;
    if (kernel?.problem && !change.gone) {
      this._kernelTrouble.emit(kernel);
      if (kernel.problem.reason === 'CHIPS_HELD') {
        return; // it is as it was: this is only said
      }
    }
    this._arrived?.push(change);
    this._apply(change);
    this._noteKernelspecs();
    this.changed();
  }

  private _apply(change: IChange): void {
    if (change.what === 'tpu' && change.gone) {
      this._failures.delete(change.id);
    }
    this._tellEnds(this._known.apply(change));
    this._setPollInterval();
  }

  private _putOperation(operation: IOperation): void {
    this._tellEnds(this._known.put(operation));
    this._setPollInterval();
  }

  private _tellEnds(ended: IOperation[]): void {
    for (const operation of ended) {
      // A TPU may vanish a moment before its kernelspecs do.
      this._kernelspecsChanged.emit();
      this._operationEnded.emit(operation);
    }
  }

  /** Says once when the set of ready environments is another one. */
  private _noteKernelspecs(): void {
    const now = this._known.kernelspecs;
    if (now !== this._kernelspecs) {
      this._kernelspecs = now;
      this._kernelspecsChanged.emit();
    }
  }

  private _setPollInterval(): void {
    const interval = (this._known.busy ? POLL.busy : POLL.calm) * 1000;
    if (this._poll.frequency.interval !== interval) {
      this._poll.frequency = { ...this._poll.frequency, interval };
    }
  }

  /** Changes since the fetch that is under way began. */
  private _arrived: IChange[] | null = null;
  private _cancelling = new Set<string>();
  private _catalog: ICatalog | null = null;
  private _catalogFailure: Failure | null = null;
  private _failure: Failure | null = null;
  private _failures = new Map<string, Failure>();
  private _fetches = 0;
  private _kernelTrouble = new Signal<this, IKernel>(this);
  private _kernelspecs = '';
  private _kernelspecsChanged = new Signal<this, void>(this);
  private _known = new Known();
  private _operationEnded = new Signal<this, IOperation>(this);
  private _patience?: ReturnType<typeof setTimeout>;
  private _phase: Phase = 'loading';
  private _poll: Poll;
  private _problem: IProblem | null = null;
  private _refreshing = false;
  private _wanted = new Map<string, ICreateTPU>();
}

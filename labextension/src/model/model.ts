// What the panel shows: the resources that the server has, and every call that changes them.

import { ISignal } from '@lumino/signaling';

import { Jobs } from '../jobs/jobModel';
import {
  IAllowAgents,
  IApp,
  ICatalog,
  IChange,
  IChangePackages,
  IConnectTPU,
  ICopyFiles,
  ICreateTPU,
  IDeleteTPU,
  IDetachMachine,
  IDisconnectTPU,
  IEnvironment,
  IFleetStatus,
  IHunt,
  IKeepTPU,
  IKernel,
  IOpenApp,
  IOpenTensorBoard,
  IOpenTunnel,
  IOperation,
  IProblem,
  IProfile,
  IProfileTPU,
  IStartRay,
  IStartHunt,
  IStartTPU,
  IReplaceTPU,
  IReportFault,
  IStopTPU,
  ISyncProject,
  ITPU,
  ITunnel
} from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store, until, untilOr } from '../ui/store';
import { IChangeFeed } from './changeFeed';
import { isOf, isSame, keyOf, Resources, TPURef } from './resources';
import { StoredIds } from './storedIds';
import { Phase, Synchronizer } from './synchronizer';
import { TPURequests } from './tpuRequests';

/** TPUs, operations and kernels, and every call that changes them. */
export class TPUModel extends Store {
  /** Disposes of *changes* with itself. */
  constructor(
    /** For calls whose answers the model does not keep. They throw `Failure`. */
    readonly client: TPUClient,
    changes: IChangeFeed,
    dismissed = new StoredIds(),
    unfinishedJobs = new StoredIds()
  ) {
    super();
    this._resources = new Resources(dismissed);
    this._sync = new Synchronizer(this._resources, client, changes);
    this._sync.stateChanged.connect(this._onSync, this);
    this._requests = new TPURequests(
      operation => this._sync.putOperation(operation),
      () => this.changed()
    );
    this.jobs = new Jobs(
      client,
      this._resources,
      this._requests,
      unfinishedJobs,
      () => this.changed()
    );
  }

  readonly jobs: Jobs;

  dispose(): void {
    if (!this.isDisposed) {
      this._sync.dispose();
      super.dispose();
    }
  }

  /** Loads everything once, and then follows what the server says. */
  open(): void {
    this._sync.open();
  }

  /** Loads everything again; *asked* by the user, who sees it. */
  refresh(asked = true): Promise<void> {
    return this._sync.refresh(asked);
  }

  /** Whether the list is being loaded because the user asked for it. */
  get refreshing(): boolean {
    return this._sync.refreshing;
  }

  get phase(): Phase {
    return this._sync.phase;
  }

  /** Why there is no list, or why it may be incomplete. */
  get problem(): IProblem | Failure | null {
    return this._sync.problem;
  }

  /** Whether the list is only polled, since events don't arrive. */
  get polling(): boolean {
    return this._sync.polling;
  }

  /** What does not work in the server's own loops; null while that is not known. */
  get status(): IFleetStatus | null {
    return this._sync.status;
  }

  /** An operation has ended. */
  get operationEnded(): ISignal<unknown, IOperation> {
    return this._sync.operationEnded;
  }

  /** What the model does not keep has changed. */
  get unlistedChanged(): ISignal<unknown, IChange> {
    return this._sync.unlistedChanged;
  }

  /** A kernel died unexpectedly, or it holds the chips that another one needs (`CHIPS_HELD`). */
  get kernelProblem(): ISignal<unknown, IKernel> {
    return this._sync.kernelProblem;
  }

  /** The server's kernelspecs may have changed. */
  get kernelspecsChanged(): ISignal<unknown, void> {
    return this._sync.kernelspecsChanged;
  }

  /** To be called when a request has changed them. */
  noteKernelspecs(): void {
    this._sync.noteKernelspecs();
  }

  /** By name, then zone. */
  get tpus(): ITPU[] {
    return this._resources.tpus;
  }

  tpu(key: string): ITPU | undefined {
    return this._resources.tpu(key);
  }

  /** Newest first, without those that were dismissed. */
  get operations(): IOperation[] {
    return this._resources.operations;
  }

  operation(id: string): IOperation | undefined {
    return this._resources.operation(id);
  }

  /** The failed operation that an environment's problem comes from. */
  failedOperation({
    problem,
    tpu: name,
    zone
  }: IEnvironment): IOperation | undefined {
    return this._resources
      .allOf({ name, zone })
      .find(one => one.state === 'failed' && isSame(one.problem, problem));
  }

  operationsOf(tpu: TPURef): IOperation[] {
    return this.operations.filter(one => isOf(one, tpu));
  }

  /** Also those that were dismissed, newest first. */
  allOperationsOf(tpu: TPURef): IOperation[] {
    return this._resources.allOf(tpu);
  }

  /** Those that run on a TPU, also those that the user does not wait for. */
  runningOn(tpu: TPURef): IOperation[] {
    return this._resources.running.filter(one => isOf(one, tpu));
  }

  /** The kernels on a TPU, as of the last `loadKernels`. */
  kernels(tpu: TPURef): IKernel[] {
    return this._resources.kernels(tpu);
  }

  /** The tunnels to a TPU, the oldest first. */
  tunnels(tpu: TPURef): ITunnel[] {
    return this._resources.tunnels(tpu);
  }

  /** The web apps of its hosts that are open, the oldest first. */
  apps(tpu: TPURef): IApp[] {
    return this._resources.apps(tpu);
  }

  /** Whether an app is known to be closed. */
  isClosed(app: string): boolean {
    return this.phase === 'ready' && !this._resources.hasApp(app);
  }

  /** Which types and zones there are; null until it was loaded. */
  get catalog(): ICatalog | null {
    return this._catalog;
  }

  /** Why the catalog could not be loaded. */
  get catalogError(): Failure | null {
    return this._catalogError;
  }

  /** Why the last request for a TPU failed. */
  failure(tpu: TPURef): Failure | undefined {
    return this._requests.failure(tpu);
  }

  /** Loads the catalog, unless a complete one is there; *again*: also then. */
  async loadCatalog(again = false): Promise<void> {
    if (!again && this._catalog && !this._catalog.problem) {
      return;
    }
    this._catalogError = null;
    try {
      this._catalog = await this.client.catalog();
    } catch (error) {
      this._catalogError = Failure.from(error);
    }
    this.changed();
  }

  /** Throws `Failure`, for the form to show. */
  async create(request: ICreateTPU): Promise<IOperation> {
    const operation = await this.client.create(request);
    this._createRequests.set(operation.id, request);
    this._sync.putOperation(operation);
    return operation;
  }

  /** Throws `Failure`, for the form to show. */
  async startHunt(request: IStartHunt): Promise<IHunt> {
    const hunt = await this.client.hunts.start(request);
    this._resources.putHunt(hunt);
    this._sync.putOperation(await this.client.operations.get(hunt.id));
    return hunt;
  }

  /** The hunt whose operation has this id. */
  hunt(id: string): IHunt | undefined {
    return this._resources.hunt(id);
  }

  /** Throws `Failure`, for the form to show. */
  async connectWith(tpu: TPURef, request: IConnectTPU): Promise<void> {
    this._sync.putOperation(await this.client.connect(tpu, request));
  }

  /** Throws `Failure`. */
  async changePackages(
    tpu: TPURef,
    environment: string,
    change: IChangePackages
  ): Promise<IOperation> {
    const operation = await this.client.environments.changePackages(
      tpu,
      environment,
      change
    );
    this._sync.putOperation(operation);
    return operation;
  }

  /** The request of a create operation that was started in this page. */
  createRequest(operation: IOperation): ICreateTPU | undefined {
    return this._createRequests.get(operation.id);
  }

  /**
   * Begins an operation. Throws `Failure`, for a dialog to show, also where the operation finds within
   * a second (or *patience*, milliseconds) that what was asked for is not there.
   */
  async begin(
    request: () => Promise<IOperation>,
    patience = 1000
  ): Promise<IOperation> {
    const operation = await request();
    this._sync.putOperation(operation);
    const { id } = operation;
    const refused = await untilOr(patience, this, () => {
      const now = this.operation(id);
      return now && now.state !== 'running' ? now.problem : undefined;
    });
    if (refused && ['INVALID', 'NOT_FOUND'].includes(refused.reason)) {
      this.dismiss(id);
      throw Failure.of(refused);
    }
    return operation;
  }

  // These return whether the request was accepted; if not, `failure` says why.

  start(tpu: TPURef, how: IStartTPU = {}): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.start(tpu, how));
  }

  /** Deletes a TPU, and creates the same one again, by a hunt. */
  replace(tpu: TPURef, how: IReplaceTPU): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      const hunt = await this.client.hunts.replace(tpu, how);
      this._resources.putHunt(hunt);
      return this.client.operations.get(hunt.id);
    });
  }

  reportFault(tpu: TPURef, how: IReportFault): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.reportFault(tpu, how));
  }

  stop(tpu: TPURef, how: IStopTPU): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.stop(tpu, how));
  }

  connect(tpu: TPURef, request: IConnectTPU = {}): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.connect(tpu, request));
  }

  disconnect(tpu: TPURef, how: IDisconnectTPU): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.disconnect(tpu, how));
  }

  detach(tpu: TPURef, how: IDetachMachine): Promise<boolean> {
    return this._requests.send(tpu, () =>
      this.client.attached.detach(tpu, how)
    );
  }

  /** *confirm_name*: its name, where it belongs to another person. */
  adopt(tpu: TPURef, confirm_name: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.usage.adopt(tpu, { confirm_name });
    });
  }

  delete(tpu: TPURef, how: IDeleteTPU): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.delete(tpu, how));
  }

  syncEnvironment(tpu: TPURef, name: string): Promise<boolean> {
    return this._requests.send(tpu, () =>
      this.client.environments.syncPackages(tpu, name)
    );
  }

  removeEnvironment(
    tpu: TPURef,
    name: string,
    endKernels: boolean
  ): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._requests.send(tpu, () =>
      this.client.environments.remove(tpu, name, how)
    );
  }

  shutDownKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.kernels.shutDown(tpu, id);
      this._resources.setKernels(
        tpu,
        this.kernels(tpu).filter(kernel => kernel.id !== id)
      );
    });
  }

  /** Keeps a TPU for an hour, whatever the limits of its guard are. */
  keep(tpu: TPURef, how: IKeepTPU): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.guards.keep(tpu, how);
    });
  }

  allowAgents(tpu: TPURef, how: IAllowAgents): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.budgets.allow(tpu, how);
    });
  }

  takeOverKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, () =>
      this.client.kernels.takeOver(tpu, id)
    );
  }

  /** Loads the kernels that run on a TPU; null if that failed. */
  async loadKernels(tpu: TPURef): Promise<IKernel[] | null> {
    const key = keyOf(tpu);
    this._kernelFailures.delete(key);
    try {
      const kernels = await this.client.kernels.list(tpu);
      this._resources.setKernels(tpu, kernels);
      return kernels;
    } catch (error) {
      this._kernelFailures.set(key, Failure.from(error));
      return null;
    } finally {
      this.changed();
    }
  }

  /** Why the last `loadKernels` failed. */
  kernelsFailure(tpu: TPURef): Failure | undefined {
    return this._kernelFailures.get(keyOf(tpu));
  }

  /** The name of a new terminal on a host, in Jupyter; null if it was refused. */
  async openTerminal(tpu: TPURef, host: number): Promise<string | null> {
    let name: string | null = null;
    await this._requests.send(tpu, async () => {
      ({ name } = await this.client.openTerminal(tpu, host));
    });
    return name;
  }

  copy(tpu: TPURef, request: ICopyFiles): Promise<boolean> {
    return this._requests.send(tpu, () =>
      this.client.copies.start(tpu, request)
    );
  }

  sync(tpu: TPURef, request: ISyncProject): Promise<boolean> {
    return this._requests.send(tpu, () => this.client.sync.start(tpu, request));
  }

  /** Throws `Failure`, for the dialog to show. */
  async openTunnel(tpu: TPURef, request: IOpenTunnel): Promise<void> {
    this._resources.putTunnel(await this.client.tunnels.open(tpu, request));
    this.changed();
  }

  closeTunnel(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.tunnels.close(tpu, id);
      this._resources.dropPort(id);
    });
  }

  /** Throws `Failure`, for the tab to show. */
  async openApp(tpu: TPURef, request: IOpenApp): Promise<IApp> {
    const app = await this.client.apps.open(tpu, request);
    this._resources.putApp(app);
    this.changed();
    return app;
  }

  /** Opens the dashboard of a TPU's Ray. Throws `Failure`, for the tab to show. */
  async openRayDashboard(tpu: TPURef): Promise<IApp> {
    const app = await this.client.ray.openDashboard(tpu);
    this._resources.putApp(app);
    this.changed();
    return app;
  }

  /** Starts Ray, and returns its dashboard; null if it failed, and the operation shows why. */
  async startRay(tpu: TPURef, request: IStartRay): Promise<IApp | null> {
    let operation: IOperation | undefined;
    const sent = await this._requests.send(tpu, async () => {
      operation = await this.client.ray.start(tpu, request);
      return operation;
    });
    if (!sent || !operation) {
      return null;
    }
    try {
      return await this._waitForApp(operation);
    } catch {
      return null;
    }
  }

  closeApp(tpu: TPURef, id: string): Promise<boolean> {
    return this._requests.send(tpu, async () => {
      await this.client.apps.close(id);
      this._resources.dropPort(id);
    });
  }

  /** Opens TensorBoard and waits until it is open. Throws `Failure`, for the tab to show. */
  async openTensorBoard(
    tpu: TPURef,
    request: IOpenTensorBoard,
    onProgress: (operation: IOperation) => void
  ): Promise<IApp> {
    const operation = await this.client.tensorboard.open(tpu, request);
    try {
      return await this._waitForApp(operation, onProgress);
    } catch (error) {
      this.dismiss(operation.id); // the panel need not show it, too
      throw error;
    }
  }

  /** Traces programs, and returns the TensorBoard that shows that; null if it failed. */
  async profile(
    tpu: TPURef,
    request: IProfileTPU
  ): Promise<{ app: IApp; profile: IProfile } | null> {
    let operation: IOperation | undefined;
    const done = await this._requests.send(tpu, async () => {
      operation = await this.client.profiles.start(tpu, request);
      return operation;
    });
    if (!done || !operation) {
      return null;
    }
    try {
      const app = await this._waitForApp(operation);
      const { result } = this.operation(operation.id) ?? operation;
      return { app, profile: result as unknown as IProfile };
    } catch (error) {
      if (this.operation(operation.id)?.state !== 'failed') {
        this._requests.fail(tpu, error); // else, the operation shows why
      }
      return null;
    }
  }

  async cancel(operation: IOperation): Promise<void> {
    this._cancelling.add(operation.id);
    await this._requests.send(
      { name: operation.tpu, zone: operation.zone },
      () => this.client.operations.cancel(operation.id)
    );
    this._cancelling.delete(operation.id);
    this.changed();
  }

  /** Ends the attempts to delete a TPU that Google refuses to delete: it stays. */
  async stopTrying(operation: IOperation): Promise<void> {
    await this._requests.send(
      { name: operation.tpu, zone: operation.zone },
      () => this.client.operations.stopTrying(operation.id, { keep_tpu: true })
    );
  }

  /** Whether its cancellation was requested and it is still running. */
  isCancelling(operation: IOperation): boolean {
    return this._cancelling.has(operation.id) && operation.state === 'running';
  }

  /** Loads an operation's whole log. */
  async loadLog(id: string): Promise<void> {
    try {
      this._sync.putOperation(await this.client.operations.get(id));
    } catch {
      // The server no longer has it: the page shows what it has.
    }
  }

  /** Hides an operation that has ended, or one that goes on whoever waits for it. */
  dismiss(id: string): void {
    this._resources.dismiss(id);
    this.changed();
  }

  dismissFailure(tpu: TPURef): void {
    this._requests.dismiss(tpu);
  }

  /** Waits for the end of an operation, and returns the app that it has opened. */
  private async _waitForApp(
    begun: IOperation,
    onProgress: (operation: IOperation) => void = () => undefined
  ): Promise<IApp> {
    this._sync.putOperation(begun);
    const { app: id, problem } = await until(this, () => {
      const now = this.operation(begun.id) ?? begun;
      if (now.state === 'running' && !this.isDisposed) {
        onProgress(now);
        return null;
      }
      return now;
    });
    if (problem) {
      throw Failure.of(problem);
    }
    const apps = await this.client.apps.list();
    const app = apps.find(one => one.id === id);
    if (!app) {
      throw new Failure('', 'CLOSED');
    }
    this._resources.putApp(app);
    this.changed();
    return app;
  }

  private _onSync(): void {
    if (this.phase === 'ready') {
      this._requests.retain(key => this.tpu(key) !== undefined);
      this.jobs.follow();
    }
    this.changed();
  }

  private _kernelFailures = new Map<string, Failure>();
  private _cancelling = new Set<string>();
  private _catalog: ICatalog | null = null;
  private _catalogError: Failure | null = null;
  private _requests: TPURequests;
  private _resources: Resources;
  private _sync: Synchronizer;
  private _createRequests = new Map<string, ICreateTPU>();
}

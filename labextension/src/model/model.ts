// What the panel shows: the resources that the server has, and every call that changes them.

import {
  IApp,
  ICatalog,
  IConnectTPU,
  ICreateTPU,
  IEnvironment,
  IHunt,
  IJob,
  IKernel,
  IOpenTensorBoard,
  IOperation,
  IStartHunt,
  IStartModelServer,
  ITPU,
  ITunnel
} from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { keyOf, TPURef } from '../rest/tpuRef';
import { Loaded } from '../state/loaded';
import { until, untilOr } from '../state/observable';
import { StoredIds } from '../state/storedIds';
import { IChangeFeed } from './changeFeed';
import { Jobs } from './jobs';
import { isOf, isSame } from './resources';
import { Synchronizer } from './synchronizer';

/** What is known of the server's TPUs, operations and kernels, and every call that changes them. */
export class TPUModel extends Synchronizer {
  /** Disposes of *changes* with itself. */
  constructor(
    /** For calls whose answers the model does not keep. They throw `Failure`. */
    readonly client: TPUClient,
    changes: IChangeFeed,
    dismissed = new StoredIds(),
    unfinishedJobs = new StoredIds()
  ) {
    super(client, changes, dismissed);
    this.jobs = new Jobs(this, unfinishedJobs);
    this._catalog = new Loaded(() => client.catalog());
    this._catalog.stateChanged.connect(() => this.changed());
  }

  readonly jobs: Jobs;

  /** The TPU that an operation or a kernel is about, while it is there. */
  tpuOf(one: { tpu: string; zone: string }): ITPU | undefined {
    return this.tpu(keyOf({ name: one.tpu, zone: one.zone }));
  }

  /** The failed operation that an environment's problem comes from. */
  failedOperation({
    problem,
    tpu: name,
    zone
  }: IEnvironment): IOperation | undefined {
    return this.allOf({ name, zone }).find(
      one => one.state === 'failed' && isSame(one.problem, problem)
    );
  }

  operationsOf(tpu: TPURef): IOperation[] {
    return this.operations.filter(one => isOf(one, tpu));
  }

  /** Those that run on a TPU, also those that the user does not wait for. */
  runningOn(tpu: TPURef): IOperation[] {
    return this.running.filter(one => isOf(one, tpu));
  }

  /** Whether an app is known to be closed. */
  isClosed(app: string): boolean {
    return this.phase === 'ready' && !this.allApps.has(app);
  }

  /** Which types and zones there are; null until it was loaded. */
  get catalog(): ICatalog | null {
    return this._catalog.value;
  }

  /** Why the catalog could not be loaded. */
  get catalogError(): Failure | null {
    return this._catalog.failure;
  }

  /** Loads the catalog, unless a complete one is there; *again*: also then. */
  async loadCatalog(again = false): Promise<void> {
    if (again || !this.catalog || this.catalog.problem) {
      await this._catalog.load();
    }
  }

  /**
   * Sends a request that changes a TPU; whether it was accepted. If not, `failure` says why. The
   * operation that it begins is followed.
   */
  async send(
    tpu: TPURef,
    request: (client: TPUClient) => Promise<IOperation | void>
  ): Promise<boolean> {
    this.dismissFailure(tpu);
    try {
      const operation = await request(this.client);
      if (operation) {
        this.putOperation(operation);
      }
    } catch (error) {
      this._fail(tpu, error);
      return false;
    }
    this.changed();
    return true;
  }

  /** Why the last request for a TPU failed, or what it has led to. */
  failure(tpu: TPURef): Failure | undefined {
    return this._failures.get(keyOf(tpu));
  }

  dismissFailure(tpu: TPURef): void {
    this._failures.delete(keyOf(tpu));
    this.changed();
  }

  private _fail(tpu: TPURef, error: unknown): void {
    this._failures.set(keyOf(tpu), Failure.from(error));
    this.changed();
  }

  /** Throws `Failure`, for the form to show. */
  async create(request: ICreateTPU): Promise<IOperation> {
    const operation = await this.client.create(request);
    this._createRequests.set(operation.id, request);
    this.putOperation(operation);
    return operation;
  }

  /** Throws `Failure`, for the dialog to show. */
  async startServer(tpu: TPURef, request: IStartModelServer): Promise<void> {
    this.putOperation(await this.client.serving.start(tpu, request));
    this.changed();
  }

  /** Throws `Failure`, for the form to show. */
  async startHunt(request: IStartHunt): Promise<IHunt> {
    const hunt = await this.client.hunts.start(request);
    this.hunts.set(hunt.id, hunt);
    this.putOperation(await this.client.operations.get(hunt.id));
    return hunt;
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
    this.putOperation(operation);
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

  connect(tpu: TPURef, request: IConnectTPU = {}): Promise<boolean> {
    return this.send(tpu, client => client.connect(tpu, request));
  }

  shutDownKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this.send(tpu, async client => {
      await client.kernels.shutDown(tpu, id);
      this.setKernels(
        tpu,
        this.kernels(tpu).filter(kernel => kernel.id !== id)
      );
    });
  }

  /** Loads the kernels that run on a TPU; null if that failed. */
  async loadKernels(tpu: TPURef): Promise<IKernel[] | null> {
    const key = keyOf(tpu);
    this._kernelFailures.delete(key);
    try {
      const kernels = await this.client.kernels.list(tpu);
      this.setKernels(tpu, kernels);
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

  /** Keeps what a request has opened or started. */
  keep(made: { app: IApp } | { job: IJob } | { tunnel: ITunnel }): void {
    if ('app' in made) {
      this.allApps.set(made.app.id, made.app);
    } else if ('job' in made) {
      this.allJobs.set(made.job.id, made.job);
    } else {
      this.allTunnels.set(made.tunnel.id, made.tunnel);
    }
    this.changed();
  }

  /** Forgets an app or a tunnel when a request has closed it. */
  close(
    tpu: TPURef,
    id: string,
    request: (client: TPUClient) => Promise<void>
  ): Promise<boolean> {
    return this.send(tpu, async client => {
      await request(client);
      this.dropPort(id);
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

  /** The app that an operation opens, and its end; null if it failed: it shows why, or `failure`. */
  async sendForApp(
    tpu: TPURef,
    request: (client: TPUClient) => Promise<IOperation>
  ): Promise<{ app: IApp; operation: IOperation } | null> {
    let begun: IOperation | undefined;
    const sent = await this.send(tpu, async client => {
      begun = await request(client);
      return begun;
    });
    if (!sent || !begun) {
      return null;
    }
    const { id } = begun;
    try {
      const app = await this._waitForApp(begun);
      return { app, operation: this.operation(id) ?? begun };
    } catch (error) {
      if (this.operation(id)?.state !== 'failed') {
        this._fail(tpu, error);
      }
      return null;
    }
  }

  async cancel({ id, tpu: name, zone }: IOperation): Promise<void> {
    this._cancelling.add(id);
    await this.send({ name, zone }, client => client.operations.cancel(id));
    this._cancelling.delete(id);
    this.changed();
  }

  /** Whether its cancellation was requested and it is still running. */
  isCancelling(operation: IOperation): boolean {
    return this._cancelling.has(operation.id) && operation.state === 'running';
  }

  /** Loads an operation's whole log. */
  async loadLog(id: string): Promise<void> {
    try {
      this.putOperation(await this.client.operations.get(id));
    } catch {
      // The server no longer has it: the page shows what it has.
    }
  }

  /** Hides an operation that has ended, or one that goes on whoever waits for it. */
  dismiss(id: string): void {
    super.dismiss(id);
    this.changed();
  }

  /** Waits for the end of an operation, and returns the app that it has opened. */
  private async _waitForApp(
    begun: IOperation,
    onProgress: (operation: IOperation) => void = () => undefined
  ): Promise<IApp> {
    this.putOperation(begun);
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
    this.keep({ app });
    return app;
  }

  protected updated(): void {
    if (this.phase === 'ready') {
      for (const key of this._failures.keys()) {
        if (!this.tpu(key)) {
          this._failures.delete(key);
        }
      }
      this.jobs.follow();
    }
    super.updated();
  }

  private _kernelFailures = new Map<string, Failure>();
  private _cancelling = new Set<string>();
  private _catalog: Loaded<ICatalog>;
  private _createRequests = new Map<string, ICreateTPU>();
  private _failures = new Map<string, Failure>();
}

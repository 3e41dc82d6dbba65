// What the server knows of TPUs and operations, and every call that changes it.

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
  IOperation
} from '../api';
import { keyOf } from './resources';
import { Failure, TPURef } from './client';
import { Synchronizer } from './synchronizer';

/** TPUs, operations and kernels, and every call that changes them. */
export class TPUModel extends Synchronizer {
  /** What one may create and where; null until it was loaded. */
  get catalog(): ICatalog | null {
    return this._catalog;
  }

  /** Why there is no catalog. */
  get catalogError(): Failure | null {
    return this._catalogError;
  }

  /** The last thing that was asked of a TPU and refused. */
  failure(tpu: TPURef): Failure | undefined {
    return this._failures.get(keyOf(tpu));
  }

  /** Loads the catalog, if it is not here yet or was incomplete. */
  async loadCatalog(): Promise<void> {
    if (this._catalog && !this._catalog.problem) {
      return;
    }
    this._catalogError = null;
    try {
      this._catalog = await this.server.catalog();
    } catch (error) {
      this._catalogError = Failure.from(error);
    }
    this.changed();
  }

  /** Throws `Failure`, for the form to show. */
  async create(request: ICreateTPU): Promise<IOperation> {
    const operation = await this.server.create(request);
    this._createRequests.set(operation.id, request);
    this.putOperation(operation);
    this.changed();
    return operation;
  }

  /** Throws `Failure`, for the form to show. */
  async connectWith(tpu: TPURef, request: IConnectTPU): Promise<void> {
    this.putOperation(await this.server.connect(tpu, request));
    this.changed();
  }

  /** What an operation that was started here was asked to create. */
  request(operation: IOperation): ICreateTPU | undefined {
    return this._createRequests.get(operation.id);
  }

  // Of these, what goes wrong is kept as the TPU's failure. They tell whether all went well.

  start(tpu: TPURef): Promise<boolean> {
    return this._attempt(tpu, () => this.server.start(tpu));
  }

  stop(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._attempt(tpu, () => this.server.stop(tpu, how));
  }

  connect(tpu: TPURef, request: IConnectTPU = {}): Promise<boolean> {
    return this._attempt(tpu, () => this.server.connect(tpu, request));
  }

  disconnect(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._attempt(tpu, () => this.server.disconnect(tpu, how));
  }

  delete(tpu: TPURef, endKernels: boolean): Promise<boolean> {
    const how = { end_kernels: endKernels };
    return this._attempt(tpu, () => this.server.delete(tpu, how));
  }

  shutDownKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._attempt(tpu, async () => {
      await this.server.shutDownKernel(tpu, id);
      this.known.setKernels(
        tpu,
        this.kernels(tpu).filter(kernel => kernel.id !== id)
      );
    });
  }

  takeOverKernel(tpu: TPURef, id: string): Promise<boolean> {
    return this._attempt(tpu, () => this.server.takeOverKernel(tpu, id));
  }

  /** Asks which kernels run on a TPU. Throws `Failure`. */
  async loadKernels(tpu: TPURef): Promise<IKernel[]> {
    const kernels = await this.server.kernels(tpu);
    this.known.setKernels(tpu, kernels);
    this.changed();
    return kernels;
  }

  openTunnel(tpu: TPURef, request: IOpenTunnel): Promise<boolean> {
    return this._attempt(tpu, async () => {
      this.known.putTunnel(await this.server.openTunnel(tpu, request));
    });
  }

  closeTunnel(tpu: TPURef, id: string): Promise<boolean> {
    return this._attempt(tpu, async () => {
      await this.server.closeTunnel(tpu, id);
      this.known.dropPort(id);
    });
  }

  /** Throws `Failure`, for the tab to show. */
  async openApp(tpu: TPURef, request: IOpenApp): Promise<IApp> {
    const app = await this.server.openApp(tpu, request);
    this.known.putApp(app);
    this.changed();
    return app;
  }

  /** What a page of *framedBy* (an origin; "" for a window) opens an app with. Throws `Failure`. */
  visitApp(id: string, framedBy: string): Promise<IAppVisit> {
    return this.server.visitApp(id, { framed_by: framedBy });
  }

  closeApp(tpu: TPURef, id: string): Promise<boolean> {
    return this._attempt(tpu, async () => {
      await this.server.closeApp(id);
      this.known.dropPort(id);
    });
  }

  /** Opens TensorBoard and waits for it, telling how far it is. Throws `Failure`. */
  async openTensorBoard(
    tpu: TPURef,
    logdir: string,
    host: number,
    tell: (operation: IOperation) => void
  ): Promise<IApp> {
    const operation = await this.server.openTensorBoard(tpu, { logdir, host });
    return this._waitForApp(operation, tell);
  }

  /** Traces a kernel and gives the TensorBoard that shows the trace; null if that failed. */
  async profile(
    tpu: TPURef,
    kernel: string,
    seconds: number
  ): Promise<IApp | null> {
    let operation: IOperation | undefined;
    const done = await this._attempt(tpu, async () => {
      operation = await this.server.profile(tpu, kernel, { seconds });
      return operation;
    });
    try {
      return done && operation ? await this._waitForApp(operation) : null;
    } catch {
      return null; // the operation says it
    }
  }

  async cancel(operation: IOperation): Promise<void> {
    this._cancelling.add(operation.id);
    await this._attempt({ name: operation.tpu, zone: operation.zone }, () =>
      this.server.cancel(operation.id)
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
      this.putOperation(await this.server.operation(id));
    } catch {
      // The server has forgotten it; what is known of it stays.
      return;
    }
    this.changed();
  }

  /** Shows no more of an operation that has ended. */
  dismiss(id: string): void {
    this.known.dismiss(id);
    this.changed();
  }

  dismissFailure(tpu: TPURef): void {
    this._failures.delete(keyOf(tpu));
    this.changed();
  }

  /** Waits for the end of an operation, and gives the app that it has opened. */
  private async _waitForApp(
    begun: IOperation,
    tell: (operation: IOperation) => void = () => undefined
  ): Promise<IApp> {
    this.putOperation(begun);
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
    const apps = await this.server.apps();
    const app = apps.find(one => one.id === ended.app);
    if (!app) {
      throw new Failure('It was closed meanwhile.', 'NOT_FOUND');
    }
    this.known.putApp(app);
    this.changed();
    return app;
  }

  protected apply(change: IChange): void {
    if (change.what === 'tpu' && change.gone) {
      this._failures.delete(change.id);
    }
    super.apply(change);
  }

  private async _attempt(
    tpu: TPURef,
    call: () => Promise<IOperation | void>
  ): Promise<boolean> {
    const key = keyOf(tpu);
    this._failures.delete(key);
    this.changed();
    try {
      const operation = await call();
      if (operation) {
        this.putOperation(operation);
      }
    } catch (error) {
      this._failures.set(key, Failure.from(error));
      return false;
    } finally {
      this.changed();
    }
    return true;
  }

  private _cancelling = new Set<string>();
  private _catalog: ICatalog | null = null;
  private _catalogError: Failure | null = null;
  private _failures = new Map<string, Failure>();
  private _createRequests = new Map<string, ICreateTPU>();
}

// TPUs, operations and kernels as the server has described them: answers and events in, one state out.

import { facts } from '../language/text';
import {
  IApp,
  IChange,
  IHunt,
  IJob,
  IKernel,
  IOperation,
  IProblem,
  ITPU,
  ITunnel
} from '../rest/api';
import { keyOf, TPURef } from '../rest/tpuRef';
import { Store } from '../state/observable';
import { StoredIds } from '../state/storedIds';

/** Always the same, so that what shows it need not be rendered again. */
const NO_KERNELS: IKernel[] = [];

/** The kinds of operations on environments. */
const ON_ENVIRONMENTS: IOperation['kind'][] = ['connect', 'environment'];

/** What the server has of one kind, by its ids; the oldest first. */
class Collection<T extends { id: string }> extends Map<string, T> {
  fill(items: T[]): void {
    this.clear();
    items.forEach(item => this.set(item.id, item));
  }

  /** Takes an event in, which may have no more of it than its id. */
  apply({ gone, id }: IChange, item: T | null): void {
    if (gone) {
      this.delete(id);
    } else if (item) {
      this.set(id, item);
    }
  }
}

export class Resources extends Store {
  constructor(private _dismissed: StoredIds) {
    super();
  }

  /** By name, then zone. */
  get tpus(): ITPU[] {
    // Asked for by each row; comparing names takes time.
    this._sorted ??= [...this._tpus.values()].sort(
      (a, b) => a.name.localeCompare(b.name) || a.zone.localeCompare(b.zone)
    );
    return this._sorted;
  }

  /** A TPU's name, with its zone where two have the same. */
  nameOf({ name, zone }: TPURef): string {
    const isTwin = (one: ITPU) => one.name === name && one.zone !== zone;
    return this.tpus.some(isTwin) ? facts(name, zone) : name;
  }

  tpu(key: string): ITPU | undefined {
    return this._tpus.get(key);
  }

  /** Newest first, without those that were dismissed, and failures that are over or shown elsewhere. */
  get operations(): IOperation[] {
    return this._newestFirst.filter(
      operation => !this._dismissed.has(operation.id) && this._isNews(operation)
    );
  }

  /** All operations of a TPU, newest first. */
  allOf(tpu: TPURef): IOperation[] {
    return this._newestFirst.filter(one => isOf(one, tpu));
  }

  operation(id: string): IOperation | undefined {
    return this._operations.get(id);
  }

  /** Those that run, also if they were dismissed. */
  get running(): IOperation[] {
    return [...this._operations.values()].filter(
      operation => operation.state === 'running'
    );
  }

  kernels(tpu: TPURef): IKernel[] {
    return this._kernels.get(keyOf(tpu)) ?? NO_KERNELS;
  }

  setKernels(tpu: TPURef, kernels: IKernel[]): void {
    this._kernels.set(keyOf(tpu), kernels);
  }

  readonly allTunnels = new Collection<ITunnel>();
  readonly allApps = new Collection<IApp>();
  readonly allJobs = new Collection<IJob>();
  /** By the ids of their operations. */
  readonly hunts = new Collection<IHunt>();

  tunnels(tpu: TPURef): ITunnel[] {
    return [...this.allTunnels.values()].filter(one => isOf(one, tpu));
  }

  /** The web apps of its hosts that are open. */
  apps(tpu: TPURef): IApp[] {
    return [...this.allApps.values()].filter(one => isOf(one, tpu));
  }

  jobsOf(tpu: TPURef): IJob[] {
    return [...this.allJobs.values()].filter(one => isOf(one, tpu));
  }

  /** A tunnel or an app was closed. */
  dropPort(id: string): void {
    this.allTunnels.delete(id);
    this.allApps.delete(id);
  }

  /** A text that differs when the server has other kernelspecs. */
  get kernelspecs(): string {
    return this.tpus
      .flatMap(tpu =>
        tpu.environments.map(
          environment =>
            `${environment.kernelspec}:${environment.display_name}:${environment.state}:${tpu.connection}`
        )
      )
      .join();
  }

  /**
   * Replaces everything by a complete answer.
   *
   * @returns the operations that have ended since the last answer or event
   */
  replaceAll(tpus: ITPU[], operations: IOperation[]): IOperation[] {
    this._tpus = new Map(tpus.map(tpu => [keyOf(tpu), tpu]));
    this._sorted = null;
    const before = this._operations;
    this._operations = new Map();
    const ended: IOperation[] = [];
    for (const operation of operations) {
      const previous = before.get(operation.id);
      if (previous) {
        this._operations.set(operation.id, previous);
      } else if (this._isFirst && operation.state === 'done') {
        // Successes from before the page was opened are not news.
        this._dismissed.add(operation.id);
      }
      ended.push(...this.put(operation));
    }
    this._isFirst = false;
    this._dismissed.retain(operations.map(operation => operation.id));
    return ended;
  }

  /** Applies an event; returns the same as `replaceAll`. */
  apply(change: IChange): IOperation[] {
    const { gone, id, operation, tpu } = change;
    switch (change.what) {
      case 'operation':
        if (operation && !gone) {
          return this.put(operation);
        }
        this._operations.delete(id);
        this._dismissed.delete(id);
        break;
      case 'tpu':
        this._sorted = null;
        if (gone) {
          this._tpus.delete(id);
          this._kernels.delete(id);
        } else if (tpu) {
          this._tpus.set(id, tpu);
        }
        break;
      case 'kernel':
        this._applyKernel(change);
        break;
      case 'job':
        this.allJobs.apply(change, change.job);
        break;
      case 'hunt':
        this.hunts.apply(change, change.hunt);
        break;
      case 'tunnel':
        this.allTunnels.apply(change, change.tunnel);
        break;
      case 'app':
        this.allApps.apply(change, change.app);
        break;
    }
    return [];
  }

  /** Adds or updates one operation; returns the same as `replaceAll`. */
  put(operation: IOperation): IOperation[] {
    if (!operation.tpu) {
      return []; // not about a TPU, such as a compilation
    }
    const before = this._operations.get(operation.id);
    if (before && before.state !== 'running' && operation.state === 'running') {
      return []; // the answer to a request, which an event has overtaken
    }
    // Lists and events may leave the log out; it only grows.
    if (before && operation.log.length === 0) {
      operation = { ...operation, log: before.log };
    }
    this._operations.set(operation.id, operation);
    const ended = before?.state === 'running' && operation.state !== 'running';
    if (ended && operation.state === 'failed') {
      this._dismissed.delete(operation.id); // nobody waited for it, but this is news
    }
    return ended ? [operation] : [];
  }

  /** Hides an operation, unless it is running and could be cancelled. */
  dismiss(id: string): void {
    const operation = this._operations.get(id);
    if (operation?.state !== 'running' || !operation.cancellable) {
      this._dismissed.add(id);
    }
  }

  private get _newestFirst(): IOperation[] {
    return [...this._operations.values()].sort((a, b) =>
      b.created.localeCompare(a.created)
    );
  }

  /**
   * Not a failure on a TPU that is gone, or after which something newer was done, or that is shown
   * with its environment, where it stays until the environment works.
   */
  private _isNews({ created, kind, problem, state, tpu, zone }: IOperation) {
    if (state !== 'failed') {
      return true;
    }
    const ref = { name: tpu, zone };
    const now = this.tpu(keyOf(ref));
    if (!now && !['create', 'hunt'].includes(kind)) {
      return false;
    }
    if (
      problem &&
      now?.environments.some(one => isSame(one.problem, problem))
    ) {
      return false;
    }
    const newer = this.allOf(ref).filter(one => one.created > created);
    return !newer.some(
      one =>
        (['delete', 'detach'].includes(one.kind) && one.state === 'done') ||
        (ON_ENVIRONMENTS.includes(one.kind) && ON_ENVIRONMENTS.includes(kind))
    );
  }

  private _applyKernel({ gone, id, kernel }: IChange): void {
    for (const [key, kernels] of this._kernels) {
      const here =
        kernel &&
        !gone &&
        keyOf({ name: kernel.tpu, zone: kernel.zone }) === key;
      const others = kernels.filter(other => other.id !== id);
      this._kernels.set(key, here ? [...others, kernel] : others);
    }
  }

  /** There was no complete answer yet. */
  private _isFirst = true;
  /** Only of TPUs whose kernels were requested. */
  private _kernels = new Map<string, IKernel[]>();
  private _operations = new Map<string, IOperation>();
  private _tpus = new Map<string, ITPU>();
  /** By name and zone; null after they have changed. */
  private _sorted: ITPU[] | null = null;
}

/** Whether two messages say the same. */
export function isSame(one: IProblem | null, other: IProblem | null): boolean {
  return one?.message === other?.message && one?.reason === other?.reason;
}

/** Whether an operation, a tunnel or an app is one of a TPU. */
export function isOf(one: { tpu: string; zone: string }, tpu: TPURef): boolean {
  return one.tpu === tpu.name && one.zone === tpu.zone;
}

// The packages of an environment: what is installed, and adding and removing some.

import { TPUModel } from '../model/model';
import {
  IChangePackages,
  IEnvironment,
  IInstalledPackage,
  IOperation,
  IProblem,
  ITPU
} from '../rest/api';
import { Failure } from '../rest/failure';
import { keyOf } from '../rest/tpuRef';
import { Loaded } from '../state/loaded';
import { Form } from '../ui/form';
import { packagesIn } from '../ui/packages';

export interface IPackagesFields {
  /** What to add. */
  add: string;
  filter: string;
}

/** Keeps what is to be added until it is installed. */
export class PackagesForm extends Form<IPackagesFields> {
  constructor(private _model: TPUModel) {
    super({ add: '', filter: '' });
    _model.operationEnded.connect(this._onEnded, this);
    _model.stateChanged.connect(() => this.changed());
    this.list.stateChanged.connect(() => this.changed());
  }

  /** What is installed. */
  readonly list = new Loaded<IInstalledPackage[]>(() =>
    this._model.client.environments.listPackages(this.tpu!, this._environment)
  );

  /** The TPU as it is now; undefined if it is gone. */
  get tpu(): ITPU | undefined {
    return this._model.tpu(this._tpu);
  }

  /** The environment as it is now; undefined if it is gone. */
  get environment(): IEnvironment | undefined {
    return this.tpu?.environments.find(one => one.name === this._environment);
  }

  /** What is installed and matches the filter. */
  get filtered(): IInstalledPackage[] {
    const part = normalized(this.filled.filter.trim());
    return (this.list.value ?? []).filter(one =>
      normalized(one.name).includes(part)
    );
  }

  /** The last change that was asked for here. */
  get operation(): IOperation | undefined {
    return this._model.operation(this._operation);
  }

  /** Whether it is the last change that was asked for here. */
  isOf(operation: IOperation): boolean {
    return operation.id === this._operation;
  }

  /** Why the last change was refused, or failed. */
  get problem(): Failure | IProblem | null {
    const operation = this.operation;
    return (
      this.failure ??
      (operation?.state === 'failed' ? operation.problem : null) ??
      null
    );
  }

  openFor(tpu: ITPU, environment: IEnvironment): void {
    if (tpu.id !== this._id || environment.name !== this._environment) {
      this.reset();
      this._tpu = keyOf(tpu);
      this._id = tpu.id;
      this._environment = environment.name;
      this._operation = '';
      this.list.put(null);
    }
    this.load();
  }

  load(): void {
    if (this.environment) {
      void this.list.load();
    }
  }

  async remove(name: string): Promise<void> {
    this._adding = '';
    await this._change({ remove: [name] });
  }

  async submit(): Promise<void> {
    const add = packagesIn(this.filled.add);
    this._adding = this.filled.add;
    if (add.length > 0) {
      await this._change({ add });
    }
  }

  private async _change(change: IChangePackages): Promise<void> {
    const { environment, tpu } = this;
    await this.send(async () => {
      if (tpu && environment) {
        this._operation = '';
        const { environments } = this._model.client;
        const operation = await environments.changePackages(
          tpu,
          environment.name,
          change
        );
        this._model.putOperation(operation);
        this._operation = operation.id;
      }
    });
  }

  private _onEnded(_: unknown, operation: IOperation): void {
    const isDone = this.isOf(operation) && operation.state === 'done';
    if (isDone && this.filled.add === this._adding) {
      this.set('add', '');
    }
    // Cells and other clients change them, too.
    if (keyOf({ name: operation.tpu, zone: operation.zone }) === this._tpu) {
      this.load();
    }
  }

  private _adding = '';
  private _environment = '';
  private _id = '';
  private _operation = '';
  private _tpu = '';
}

/** A package's name as package indexes compare it. */
function normalized(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, '-');
}

// The form that connects a TPU with an environment of the user's choice: its input and validation.

import { TranslationBundle } from '@jupyterlab/translation';

import { IConnectTPU, ITPU } from '../api';
import { Form } from './form';
import { packagesIn } from './packages';
import { TPUModel } from '../model/model';

/** The server's rule for names (`EnvironmentName` in fleet/models.py; a test compares them). */
export const ENVIRONMENT_PATTERN = '^[a-z0-9]([-._a-z0-9]{0,38}[a-z0-9])?$';

export interface IConnectFields {
  environment: string;
  python: string;
  packages: string;
}

const EMPTY: IConnectFields = { environment: '', python: '', packages: '' };

export class ConnectForm extends Form<IConnectFields, true> {
  constructor(private _model: TPUModel) {
    super(EMPTY);
  }

  /** The TPU to connect; null until the form was opened for one. */
  get tpu(): ITPU | null {
    return this._tpu;
  }

  /**
   * Opens the form for a TPU: for its incomplete environment, if there is one, or for a new one.
   */
  openFor(tpu: ITPU): void {
    this._tpu = tpu;
    const unfinished = tpu.environments.find(one => one.state === 'failed');
    const taken = tpu.environments.some(one => one.name === 'default');
    this.reset();
    this.filled.environment =
      unfinished?.name ?? (taken ? 'another' : 'default');
    this.filled.python =
      unfinished?.python.replace(/(\.\d+)\.\d+$/, '$1') ?? '';
    this.filled.packages = unfinished?.packages.join('\n') ?? '';
    this.changed();
  }

  /** Why the environment's name is invalid; "" if it is valid. */
  nameProblem(trans: TranslationBundle): string {
    return new RegExp(ENVIRONMENT_PATTERN).test(this.filled.environment)
      ? ''
      : trans.__(
          'Use 1–40 lower-case letters, digits, hyphens, dots and underscores.'
        );
  }

  /** The request to the server. */
  get request(): IConnectTPU {
    const { environment, packages, python } = this.filled;
    return {
      environment,
      python: python.trim() || null,
      packages: packagesIn(packages)
    };
  }

  protected async ask(): Promise<true> {
    if (this._tpu) {
      await this._model.connectWith(this._tpu, this.request);
    }
    return true;
  }

  private _tpu: ITPU | null = null;
}

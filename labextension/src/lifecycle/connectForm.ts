// The form that creates an environment of the user's choice: its input and validation.

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IConnectTPU, IEnvironment, IHostSetup, ITPU } from '../rest/api';
import { Form } from '../ui/form';
import { given } from '../ui/typed';
import { NO_SETUP } from './hostOptions';

/** The server's rule for names (`EnvironmentName` in environment/models.py; a test compares them). */
export const ENVIRONMENT_PATTERN = '^[a-z0-9]([-._a-z0-9]{0,38}[a-z0-9])?$';

/** What uses the chips in an environment. */
export type Framework = NonNullable<IConnectTPU['framework']>;

export interface IConnectFields extends IHostSetup {
  environment: string;
  framework: Framework;
  python: string | null;
  packages: string[];
  /** The text of a requirements file. */
  requirements: string;
}

const EMPTY: IConnectFields = {
  environment: '',
  framework: 'jax',
  python: null,
  packages: [],
  requirements: '',
  ...NO_SETUP
};

/** The whole rule for names, to be read before a mistake. */
export function environmentRule(): string {
  return trans.__(
    '1–40 lower-case letters, digits, hyphens, dots and underscores. Starts and ends with a letter or digit.'
  );
}

export class ConnectForm extends Form<IConnectFields> {
  constructor(private _model: TPUModel) {
    super(EMPTY);
  }

  /** The TPU that gets it; null until the form was opened for one. */
  tpu: ITPU | null = null;
  /** The environment to change; null for a new one. */
  environment: IEnvironment | null = null;
  /** The environment with whose Python and packages a new one begins. */
  template: IEnvironment | null = null;
  /** Whether it was opened with a requirements file, which was given on the command line. */
  hasRequirements = false;

  /** Opens the form with what was asked for in *environment*, or for a new one. */
  openFor(tpu: ITPU, environment: IEnvironment | null = null): void {
    this.reset();
    this.tpu = tpu;
    this.environment = environment;
    this.template = environment
      ? null
      : (tpu.environments.find(one => one.state === 'ready') ?? null);
    const shown = environment ?? this.template;
    const { packages, python, requirements, setup } =
      shown?.asked ?? shown ?? {};
    this.filled = {
      environment: environment?.name ?? newName(tpu),
      framework: shown?.framework ?? 'jax',
      python: python?.replace(/^(\d+\.\d+)\.\d+$/, '$1') ?? null,
      packages: packages ?? [],
      requirements: requirements ?? '',
      ...(setup ?? NO_SETUP)
    };
    this.hasRequirements = !!requirements;
    this.changed();
  }

  /** Why the environment's name is invalid; "" if it is valid. */
  nameProblem(): string {
    const name = this.filled.environment;
    if (!new RegExp(ENVIRONMENT_PATTERN).test(name)) {
      return environmentRule();
    }
    const taken = this.tpu?.environments.some(one => one.name === name);
    return taken && name !== this.environment?.name
      ? trans.__('An environment with this name already exists.')
      : '';
  }

  /** The request to the server. */
  get request(): IConnectTPU {
    const { environment, framework, packages, python, requirements } =
      this.filled;
    return {
      environment,
      framework,
      python,
      packages,
      // Empty, and not null: the server then takes all of this instead of what was asked for before.
      requirements,
      setup: given(this.filled, NO_SETUP),
      // The form of an environment shows all that its hosts should have.
      replace_setup: this.environment ? true : undefined
    };
  }

  /** Whether the server has accepted it. */
  async submit(): Promise<boolean> {
    const accepted = await this.send(async () => {
      if (this.tpu) {
        const { client } = this._model;
        this._model.putOperation(await client.connect(this.tpu, this.request));
      }
      this.reset();
      return true;
    });
    return !!accepted;
  }
}

function newName(tpu: ITPU): string {
  const taken = new Set(tpu.environments.map(one => one.name));
  for (let number = 0; ; number += 1) {
    const name = ['default', 'another'][number] ?? `another-${number}`;
    if (!taken.has(name)) {
      return name;
    }
  }
}

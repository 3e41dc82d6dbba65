// The example notebooks, which come with the extension.

import { PathExt, PageConfig } from '@jupyterlab/coreutils';
import { Contents } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';

import { trans } from '../language/translation';
import { IEnvironment } from '../rest/api';
import { openDocument } from './kernelWidget';

/** Loaded when one is opened. */
const NOTEBOOKS = {
  'first-steps': () =>
    import('../../../examples/first-steps.ipynb', { with: { type: 'json' } }),
  'jax-on-tpu': () =>
    import('../../../examples/jax-on-tpu.ipynb', { with: { type: 'json' } }),
  'jax-tour': () =>
    import('../../../examples/jax-tour.ipynb', { with: { type: 'json' } }),
  'spmd-cookbook': () =>
    import('../../../examples/spmd-cookbook.ipynb', { with: { type: 'json' } }),
  'lorenz-ode': () =>
    import('../../../examples/lorenz-ode.ipynb', { with: { type: 'json' } }),
  'wave-equation': () =>
    import('../../../examples/wave-equation.ipynb', { with: { type: 'json' } })
};

export type Example = keyof typeof NOTEBOOKS;

/** Their titles, in the order for a newcomer. */
export function exampleTitles(): [Example, string][] {
  return [
    ['first-steps', trans.__('First steps on a TPU')],
    ['jax-on-tpu', trans.__('JAX on a TPU, and jaxkit')],
    ['jax-tour', trans.__('A tour of JAX')],
    ['spmd-cookbook', trans.__('One program, many devices')],
    ['lorenz-ode', trans.__('Thousands of Lorenz systems')],
    ['wave-equation', trans.__('The wave equation')]
  ];
}

export class Examples {
  constructor(
    private _contents: Contents.IManager,
    private _commands: CommandRegistry
  ) {}

  /**
   * Opens the user's copy of an example on the kernel of an environment; makes the copy first, if
   * there is none.
   */
  async open(example: Example, environment: IEnvironment): Promise<void> {
    const folder = PageConfig.getOption('preferredPath');
    const path = PathExt.join(folder, `${example}.ipynb`);
    const name = environment.kernelspec;
    const content =
      (await this._copy(path)) ?? (await NOTEBOOKS[example]()).default;
    const { metadata } = content;
    if (metadata.kernelspec?.name !== name) {
      const kernelspec = { name, display_name: name };
      await this._contents.save(path, {
        type: 'notebook',
        format: 'json',
        content: { ...content, metadata: { ...metadata, kernelspec } }
      });
    }
    await openDocument(this._commands, path);
  }

  /** The user's copy, with their changes; null if there is none. */
  private async _copy(path: string): Promise<Contents.IModel['content']> {
    try {
      return (await this._contents.get(path, { type: 'notebook' })).content;
    } catch (error) {
      if ((error as { response?: Response }).response?.status === 404) {
        return null;
      }
      throw error;
    }
  }
}

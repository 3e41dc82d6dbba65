// What the user opens on a TPU: notebooks, consoles, terminals, files, web apps, and commands.

import { showErrorMessage } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { IAppTarget, targetOf, targetOn } from '../forwarding/target';
import { Examples } from '../kernels/examples';
import { startableEnvironments } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { keyOf, TPURef } from '../model/resources';
import { IEnvironment, IKernel, ITPU } from '../rest/api';
import { attempt } from '../ui/attempt';
import { trans } from '../ui/translation';
import { CommandIDs } from './commandIDs';

/** Each opens something in a tab or a window, if the user does not cancel the question before it. */
export class Opener {
  constructor(
    private _model: TPUModel,
    private _commands: CommandRegistry,
    private _examples: Pick<Examples, 'open'>
  ) {}

  /** Shows the page of a TPU. */
  async tpu(tpu: TPURef): Promise<void> {
    if (this._commands.hasCommand(CommandIDs.showTPU)) {
      await this._show(CommandIDs.showTPU, { tpu: keyOf(tpu) });
    }
  }

  /** Asks for a command, and shows its output in a tab. */
  async run(tpu: ITPU): Promise<void> {
    const { askRun } = await import('../jobs/commandDialogs');
    const run = await askRun(tpu, this._model);
    if (run) {
      const args = { run } as unknown as ReadonlyPartialJSONObject;
      await this._show(CommandIDs.showRun, args);
    }
  }

  async notebook(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const chosen = environment ?? startableEnvironments(tpu)[0];
    const kernelName = chosen?.pod_kernelspec
      ? await (await import('./dialogs')).askNotebookKernel(chosen)
      : chosen?.kernelspec;
    if (kernelName) {
      await this._show('notebook:create-new', { kernelName });
    }
  }

  async console(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const name = (environment ?? startableEnvironments(tpu)[0])?.kernelspec;
    if (name) {
      const kernelPreference = { name };
      await this._show('console:create', { kernelPreference });
    }
  }

  /** Opens a terminal on a host. */
  async terminal(tpu: ITPU, host: number): Promise<void> {
    const name = await this._model.openTerminal(tpu, host);
    if (name) {
      await this._show('terminal:create-new', { name });
    }
  }

  /** Shows the files of a host in a file browser. */
  async files(tpu: ITPU, host: number): Promise<void> {
    await this._show(CommandIDs.showFiles, {
      tpu: keyOf(tpu),
      host
    });
  }

  /** Shows a web app of a host: in a tab, or a window where there are no tabs. */
  async app(target: IAppTarget): Promise<void> {
    await this._show(CommandIDs.showApp, target);
  }

  /** Traces a kernel, or all programs that use JAX on all hosts, and shows that. */
  async profile(tpu: ITPU, kernel?: IKernel): Promise<void> {
    const { askProfile, notifyUntraced } =
      await import('../jobs/profileDialogs');
    const request = await askProfile(tpu, kernel);
    const traced = request && (await this._model.profile(tpu, request));
    if (traced) {
      notifyUntraced(traced.profile);
      await this.app(targetOf(traced.app));
    }
  }

  async example(tpu: ITPU): Promise<void> {
    const [environment] = startableEnvironments(tpu);
    const example =
      environment && (await (await import('./dialogs')).askExample(tpu));
    if (example) {
      try {
        await this._examples.open(example, environment);
      } catch (reason) {
        const title = trans.__('The example was not opened');
        await showErrorMessage(title, reason as Error);
      }
    }
  }

  async port(tpu: ITPU): Promise<void> {
    const { askApp } = await import('../forwarding/portDialog');
    const request = await askApp(tpu);
    if (request) {
      const { host, port } = request;
      await this.app(targetOn(tpu, trans.__('Port %1', port), { host, port }));
    }
  }

  async tensorBoard(tpu: ITPU): Promise<void> {
    const logdir = await (await import('./dialogs')).askLogdir(tpu);
    if (logdir) {
      await this.app(targetOn(tpu, trans.__('TensorBoard'), { logdir }));
    }
  }

  private _show(
    command: string,
    args: ReadonlyPartialJSONObject
  ): Promise<void> {
    return attempt(this._commands.execute(command, args));
  }
}

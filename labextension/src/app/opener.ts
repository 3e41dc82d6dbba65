// What the user opens on a TPU: its page, notebooks, consoles, terminals, files, and web apps.

import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../actions/commandIDs';
import { IOpener } from '../actions/panelActions';
import { Example, Examples } from '../kernels/examples';
import { IAppTarget } from '../model/appTarget';
import { startableEnvironments } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IEnvironment, IRun, ITPU } from '../rest/api';
import { keyOf, TPURef } from '../rest/tpuRef';
import { attempt } from '../ui/attempt';

export class Opener implements IOpener {
  constructor(
    private _model: TPUModel,
    private _commands: CommandRegistry,
    private _examples: Pick<Examples, 'open'>
  ) {}

  async tpu(tpu: TPURef): Promise<void> {
    if (this._commands.hasCommand(CommandIDs.showTPU)) {
      await this._show(CommandIDs.showTPU, { tpu: keyOf(tpu) });
    }
  }

  async notebook(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const chosen = environment ?? startableEnvironments(tpu)[0];
    const kernelName = chosen?.pod_kernelspec
      ? await (
          await import('../kernels/kernelDialogs')
        ).askNotebookKernel(chosen)
      : chosen?.kernelspec;
    if (kernelName) {
      await this._show('notebook:create-new', { kernelName });
    }
  }

  async console(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const name = (environment ?? startableEnvironments(tpu)[0])?.kernelspec;
    if (name) {
      await this._show('console:create', { kernelPreference: { name } });
    }
  }

  async terminal(tpu: ITPU, host: number): Promise<void> {
    await this._model.send(tpu, async client => {
      const { name } = await client.openTerminal(tpu, host);
      await this._show('terminal:create-new', { name });
    });
  }

  async files(tpu: ITPU, host: number): Promise<void> {
    await this._show(CommandIDs.showFiles, { tpu: keyOf(tpu), host });
  }

  async app(target: IAppTarget): Promise<void> {
    await this._show(CommandIDs.showApp, target);
  }

  example(name: string, environment: IEnvironment): Promise<void> {
    return this._examples.open(name as Example, environment);
  }

  async run(run: IRun): Promise<void> {
    await this._show(CommandIDs.showRun, { run });
  }

  /** Shows something by a command, whose arguments are JSON. */
  private _show(command: string, args: object): Promise<void> {
    return attempt(
      this._commands.execute(command, args as ReadonlyPartialJSONObject)
    );
  }
}

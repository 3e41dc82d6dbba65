// What the user opens on a TPU: its page, notebooks, consoles, terminals, files, and web apps.

import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../actions/commandIDs';
import { IAppTarget } from '../forwarding/target';
import { Examples } from '../kernels/examples';
import { startableEnvironments } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IEnvironment, ITPU } from '../rest/api';
import { keyOf, TPURef } from '../rest/tpuRef';
import { attempt } from '../ui/attempt';

/** Each opens something in a tab or a window, if the user does not cancel the question before it. */
export class Opener {
  constructor(
    private _model: TPUModel,
    private _commands: CommandRegistry,
    readonly examples: Pick<Examples, 'open'>
  ) {}

  /** Shows the page of a TPU. */
  async tpu(tpu: TPURef): Promise<void> {
    if (this._commands.hasCommand(CommandIDs.showTPU)) {
      await this.show(CommandIDs.showTPU, { tpu: keyOf(tpu) });
    }
  }

  async notebook(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const chosen = environment ?? startableEnvironments(tpu)[0];
    const kernelName = chosen?.pod_kernelspec
      ? await (await import('../actions/questions')).askNotebookKernel(chosen)
      : chosen?.kernelspec;
    if (kernelName) {
      await this.show('notebook:create-new', { kernelName });
    }
  }

  async console(tpu: ITPU, environment?: IEnvironment): Promise<void> {
    const name = (environment ?? startableEnvironments(tpu)[0])?.kernelspec;
    if (name) {
      await this.show('console:create', { kernelPreference: { name } });
    }
  }

  /** Opens a terminal on a host. */
  async terminal(tpu: ITPU, host: number): Promise<void> {
    await this._model.send(tpu, async client => {
      const { name } = await client.openTerminal(tpu, host);
      await this.show('terminal:create-new', { name });
    });
  }

  /** Shows the files of a host in a file browser. */
  async files(tpu: ITPU, host: number): Promise<void> {
    await this.show(CommandIDs.showFiles, { tpu: keyOf(tpu), host });
  }

  /** Shows a web app of a host: in a tab, or a window where there are no tabs. */
  async app(target: IAppTarget): Promise<void> {
    await this.show(CommandIDs.showApp, target);
  }

  /** Shows something by a command, whose arguments are JSON. */
  show(command: string, args: object): Promise<void> {
    return attempt(
      this._commands.execute(command, args as ReadonlyPartialJSONObject)
    );
  }
}

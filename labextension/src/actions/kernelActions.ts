// What ends kernels: shutting one down, and what ends all on a TPU. The user is asked before.

import { TranslationBundle } from '@jupyterlab/translation';

import { IKernel, ITPU } from '../api';
import { IServerKernels } from '../kernels/serverKernels';
import { TPUModel } from '../model/model';
import {
  confirmDestructive,
  confirmTakeOver,
  DestructiveAction
} from './dialogs';

export class KernelActions {
  constructor(
    private _model: TPUModel,
    /** The kernels of this Jupyter server. */
    private _serverKernels: IServerKernels,
    private _trans: TranslationBundle
  ) {}

  /** The kernels on a TPU; null if they can't be loaded. */
  async load(tpu: ITPU): Promise<IKernel[] | null> {
    try {
      return await this._model.loadKernels(tpu);
    } catch {
      return null;
    }
  }

  async shutDown(tpu: ITPU, kernel: IKernel): Promise<void> {
    if (kernel.problem) {
      // It is dead: nothing is lost, it is only removed from the list.
      await this._model.shutDownKernel(tpu, kernel.id);
      return;
    }
    if (await confirmDestructive('kernel', tpu, [kernel], this._trans)) {
      const ended = await this._serverKernels.shutDown([kernel.id]);
      if (ended.length === 0) {
        await this._model.shutDownKernel(tpu, kernel.id);
      }
      await this.load(tpu);
    }
  }

  /** Takes a kernel over for this Jupyter server, with its notebook. */
  async takeOver(tpu: ITPU, kernel: IKernel): Promise<void> {
    // Its user may have changed since the list was shown.
    const now = (await this.load(tpu))?.find(one => one.id === kernel.id);
    if (
      (await confirmTakeOver(now ?? kernel, tpu, this._trans)) &&
      (await this._model.takeOverKernel(tpu, kernel.id))
    ) {
      await this._serverKernels.show(kernel.id);
      await this.load(tpu);
    }
  }

  /** Does what ends the TPU's kernels. Kernels that are started meanwhile are asked about, too. */
  async destroy(
    action: Exclude<DestructiveAction, 'kernel'>,
    tpu: ITPU,
    environment = ''
  ): Promise<void> {
    // Loaded even if none is known: one may have been started a moment ago. Not loaded from a TPU
    // that is not connected: the user would have to wait.
    let kernels =
      tpu.connection === 'connected'
        ? await this.load(tpu)
        : tpu.kernels > 0
          ? null
          : [];
    const apps = this._model.apps(tpu).length;
    do {
      if (environment && kernels) {
        kernels = kernels.filter(one => one.environment === environment);
      }
      const running = kernels === null ? tpu.kernels : kernels.length;
      if (action !== 'disconnect' || running > 0 || apps > 0) {
        const trans = this._trans;
        if (
          !(await confirmDestructive(action, tpu, kernels, trans, environment))
        ) {
          return;
        }
      }
      this._model.dismissFailure(tpu);
      await (action === 'environment'
        ? this._model.removeEnvironment(tpu, environment, running > 0)
        : this._model[action](tpu, running > 0));
      kernels = await this._newlyStarted(tpu);
    } while (kernels.length > 0);
  }

  /** Kernels that were started after the user confirmed, for which the server refused the request. */
  private async _newlyStarted(tpu: ITPU): Promise<IKernel[]> {
    const refused = this._model.failure(tpu)?.reason === 'KERNELS_RUNNING';
    return refused ? ((await this.load(tpu)) ?? []) : [];
  }
}

// What ends kernels: shutting one down, and what ends all on a TPU, and its jobs. The user is asked
// before.

import { IKernelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { DestructiveAction } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IKernel, ITPU } from '../rest/api';
import { waitIfSlow } from '../ui/wait';
import type { ISaves } from './saveChoice';
import { IServerKernels } from './serverKernels';

export class KernelActions implements IKernelActions {
  constructor(
    private _model: TPUModel,
    /** The kernels of this Jupyter server. */
    private _serverKernels: IServerKernels
  ) {}

  load(tpu: ITPU): Promise<IKernel[] | null> {
    return this._model.loadKernels(tpu);
  }

  async shutDown(tpu: ITPU, kernel: IKernel): Promise<void> {
    if (kernel.problem) {
      // It is dead: nothing is lost, it is only removed from the list.
      await this._model.shutDownKernel(tpu, kernel.id);
      return;
    }
    const { confirmDestructive } = await dialogs();
    const { kernelLoss } = await import('./lossLabels');
    if (await confirmDestructive('kernel', tpu, kernelLoss(kernel))) {
      if (!(await this._serverKernels.shutDown(kernel.id))) {
        await this._model.shutDownKernel(tpu, kernel.id);
      }
      await this.load(tpu);
    }
  }

  async takeOver(tpu: ITPU, kernel: IKernel): Promise<void> {
    // Its user may have changed since the list was shown.
    const now = (await this.load(tpu))?.find(one => one.id === kernel.id);
    const { confirmTakeOver } = await dialogs();
    if (
      (await confirmTakeOver(now ?? kernel, tpu)) &&
      (await this._model.send(tpu, client =>
        client.kernels.takeOver(tpu, kernel.id)
      ))
    ) {
      await this._serverKernels.show(kernel.id);
      await this.load(tpu);
    }
  }

  async destroy(
    action: Exclude<DestructiveAction, 'kernel'>,
    tpu: ITPU,
    environment?: string
  ): Promise<void> {
    const { confirmDestructive } = await dialogs();
    const { lossOf, lossQuestion, mayEnd } = await import('./lossLabels');
    let name: string | null | undefined;
    let refused = false;
    const saves: ISaves = {};
    do {
      const loss = await waitIfSlow(
        trans.__('Checking what runs on %1', tpu.name),
        lossOf(this._model.client, action, tpu, environment)
      );
      const ends = mayEnd(loss);
      const isAsked =
        action !== 'disconnect' ||
        refused ||
        ends.end_kernels ||
        this._model.apps(tpu).length > 0;
      if (
        isAsked &&
        !(await confirmDestructive(action, tpu, loss, environment, saves))
      ) {
        return;
      }
      if (action === 'delete' || action === 'stop') {
        const { title, accept } = lossQuestion(action, tpu, loss);
        const { askName } = await import('../ui/named');
        name ??= await askName(tpu, title, accept);
        if (name === null) {
          return;
        }
      }
      this._model.dismissFailure(tpu);
      const how = { end_kernels: ends.end_kernels };
      const named = { ...ends, ...saves, ...(name && { confirm_name: name }) };
      await this._model.send(tpu, client =>
        ({
          delete: () => client.delete(tpu, named),
          detach: () => client.attached.detach(tpu, ends),
          disconnect: () => client.disconnect(tpu, how),
          environment: () => client.environments.remove(tpu, environment!, how),
          stop: () => client.stop(tpu, named)
        })[action]()
      );
      // The server refuses what would end kernels or jobs that were started since the question.
      const reason = this._model.failure(tpu)?.reason;
      refused = reason === 'KERNELS_RUNNING' || reason === 'JOBS_RUNNING';
    } while (refused);
  }
}

const dialogs = () => import('./kernelDialogs');

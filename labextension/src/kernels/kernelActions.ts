// What ends kernels: shutting one down, and what ends all on a TPU, and its jobs. The user is asked
// before.

import { IKernelActions } from '../actions/panelActions';
import { DestructiveAction } from '../model/availableActions';
import { runningJobs } from '../model/jobs';
import { TPUModel } from '../model/model';
import { IKernel, ITPU } from '../rest/api';
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
    if (await confirmDestructive('kernel', tpu, { kernels: [kernel] })) {
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
    environment = ''
  ): Promise<void> {
    const { confirmDestructive } = await dialogs();
    // Loaded even if none is known: one may have been started a moment ago. Not loaded from a TPU
    // that is not connected: the user would have to wait.
    let kernels: IKernel[] | null = tpu.kernels > 0 ? null : [];
    if (tpu.connection === 'connected') {
      kernels = await this.load(tpu);
    }
    const apps = this._model.apps(tpu).length;
    let jobs = environment ? [] : runningJobs(this._model, tpu);
    let name: string | null | undefined;
    for (;;) {
      if (environment && kernels) {
        kernels = kernels.filter(one => one.environment === environment);
      }
      const end_kernels = (kernels?.length ?? tpu.kernels) > 0;
      if (action !== 'disconnect' || end_kernels || apps > 0) {
        const what = { environment, jobs, kernels };
        if (!(await confirmDestructive(action, tpu, what))) {
          return;
        }
      }
      if (action === 'delete' || action === 'stop') {
        const { lossQuestion } = await import('./lossLabels');
        const { title, accept } = lossQuestion(action, tpu);
        const { askName } = await import('../ui/named');
        name ??= await askName(tpu, title, accept);
        if (name === null) {
          return;
        }
      }
      this._model.dismissFailure(tpu);
      const how = { end_kernels };
      const all = { end_kernels, end_jobs: jobs.length > 0 };
      const named = { ...all, ...(name && { confirm_name: name }) };
      await this._model.send(tpu, client =>
        ({
          delete: () => client.delete(tpu, named),
          detach: () => client.attached.detach(tpu, all),
          disconnect: () => client.disconnect(tpu, how),
          environment: () => client.environments.remove(tpu, environment, how),
          stop: () => client.stop(tpu, named)
        })[action]()
      );
      // The server refuses what would end kernels or jobs that were started since the question.
      const refused = this._model.failure(tpu)?.reason;
      if (refused === 'KERNELS_RUNNING') {
        kernels = (await this.load(tpu)) ?? [];
      } else if (refused === 'JOBS_RUNNING') {
        await this._model.refresh(false);
        jobs = runningJobs(this._model, tpu);
      }
      const again =
        (refused === 'KERNELS_RUNNING' && kernels?.length) ||
        (refused === 'JOBS_RUNNING' && jobs.length);
      if (!again) {
        return;
      }
    }
  }
}

const dialogs = () => import('./kernelDialogs');

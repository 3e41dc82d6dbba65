// What the user can do with jobs, with the questions before it.

import { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../actions/commandIDs';
import { IJobActions } from '../actions/panelActions';
import { TPUModel } from '../model/model';
import { IJob, ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { attempt } from '../ui/attempt';
import { ViewState } from '../ui/viewState';

export class JobActions implements IJobActions {
  constructor(
    private _model: TPUModel,
    private _view: ViewState,
    private _commands: CommandRegistry
  ) {}

  async start(tpu: ITPU): Promise<void> {
    const { askJob } = await import('./commandDialogs');
    if (await askJob(tpu, this._model)) {
      this._view.open(keyOf(tpu)); // where the job is
    }
  }

  async showLog(job: IJob): Promise<void> {
    const { id, name, tpu, zone } = job;
    const args = { tpu: keyOf({ name: tpu, zone }), job: id, name };
    await attempt(this._commands.execute(CommandIDs.showJob, args));
  }

  async showWhere(job: IJob): Promise<void> {
    const { showWhere } = await import('./whereDialog');
    await attempt(showWhere(job, this._model));
  }
}

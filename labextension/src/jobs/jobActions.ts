// What the user can do with jobs, with the questions before it.

import { CommandRegistry } from '@lumino/commands';

import { CommandIDs } from '../actions/commandIDs';
import { TPUModel } from '../model/model';
import { IJob, ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { attempt } from '../ui/attempt';
import { PanelState } from '../ui/viewState';

export class JobActions {
  constructor(
    private _model: TPUModel,
    private _view: PanelState,
    private _commands: CommandRegistry
  ) {}

  /** Asks for a command, and starts it. */
  async start(tpu: ITPU): Promise<void> {
    const { askJob } = await import('./commandDialogs');
    if (await askJob(tpu, this._model)) {
      this._view.open(keyOf(tpu)); // where the job is
    }
  }

  /** Shows what a job has printed, and what it prints. */
  async showLog(job: IJob): Promise<void> {
    const { id, name, tpu, zone } = job;
    const args = { tpu: keyOf({ name: tpu, zone }), job: id, name };
    await attempt(this._commands.execute(CommandIDs.showJob, args));
  }
}

// Copies and syncs of files and folders, with the questions before.

import { ICopyActions } from '../actions/panelActions';
import { TPUModel } from '../model/model';
import { IOperation, ISyncConflict, ISyncResult, ITPU } from '../rest/api';
import { resultOf, wouldOverwrite } from './results';

export class CopyActions implements ICopyActions {
  constructor(private _model: TPUModel) {}

  async copy(tpu: ITPU, source = ''): Promise<void> {
    await (await import('./fileDialogs')).copyFiles(tpu, this._model, source);
  }

  async sync(tpu: ITPU, folder = this._synced): Promise<void> {
    const { syncFolder } = await import('./fileDialogs');
    this._synced = await syncFolder(tpu, this._model, folder);
  }

  async decideConflicts(
    tpu: ITPU,
    result: ISyncResult,
    pull: boolean
  ): Promise<boolean> {
    const { folder, remote, conflicts } = result;
    // A push is for all hosts; a pull is from a host that has changed the file.
    const from = (conflict: ISyncConflict) => (pull ? conflict.hosts[0] : 0);
    for (const host of new Set(conflicts.map(from))) {
      const files = conflicts.filter(conflict => from(conflict) === host);
      const only = files.map(({ path }) => path);
      const request = { folder, remote, pull, host, only, overwrite: true };
      const send = this._model.send(tpu, client =>
        client.sync.start(tpu, request)
      );
      if (!(await send)) {
        return false;
      }
    }
    return true;
  }

  async again(tpu: ITPU, operation: IOperation): Promise<void> {
    const result = resultOf('copy', operation);
    if (!result) {
      await this.copy(tpu); // it ended with its server
      return;
    }
    const overwrite = wouldOverwrite(operation) || result.request.overwrite;
    const request = { ...result.request, overwrite };
    await this._model.send(tpu, client => client.copies.start(tpu, request));
  }

  /** The folder that was synced last. */
  private _synced = '.';
}

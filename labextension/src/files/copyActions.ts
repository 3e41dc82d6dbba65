// Copies and syncs of files and folders, with the questions before.

import { TPUModel } from '../model/model';
import { IOperation, ISyncConflict, ISyncResult, ITPU } from '../rest/api';
import { copyResult, wouldOverwrite } from './copyView';

export class CopyActions {
  constructor(private _model: TPUModel) {}

  async sync(tpu: ITPU): Promise<void> {
    const { askSync } = await import('./syncDialog');
    const request = await askSync(tpu, this._synced);
    if (request) {
      this._synced = request.folder;
      await this._model.sync(tpu, request);
    }
  }

  /** Copies the files in conflict: those of this computer, or those of the TPU; whether it began. */
  async decideConflicts(
    tpu: ITPU,
    result: ISyncResult,
    pull: boolean
  ): Promise<boolean> {
    const { folder, remote, conflicts } = result;
    // A push is for all hosts; a pull is from a host that has changed the file.
    const from = (each: ISyncConflict) => (pull ? each.hosts[0] : 0);
    for (const host of new Set(conflicts.map(from))) {
      const files = conflicts.filter(each => from(each) === host);
      const only = files.map(each => each.path);
      const request = { folder, remote, pull, host, only, overwrite: true };
      if (!(await this._model.sync(tpu, request))) {
        return false;
      }
    }
    return true;
  }

  async copy(tpu: ITPU): Promise<void> {
    const { askCopy } = await import('./copyDialog');
    const request = await askCopy(tpu);
    if (request) {
      await this._model.copy(tpu, request);
    }
  }

  /** Copies the same again, and overwrites the files that were in its way. */
  async again(tpu: ITPU, operation: IOperation): Promise<void> {
    const result = copyResult(operation);
    if (!result) {
      await this.copy(tpu); // it ended with its server
      return;
    }
    const overwrite = wouldOverwrite(operation) || result.request.overwrite;
    await this._model.copy(tpu, { ...result.request, overwrite });
  }

  /** The folder that was synced last. */
  private _synced = '';
}

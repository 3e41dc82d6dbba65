// Copies and syncs of files and folders, with the questions before.

import { TPUModel } from '../model/model';
import { IOperation, ISyncConflict, ISyncResult, ITPU } from '../rest/api';
import { resultOf, wouldOverwrite } from './results';

export class CopyActions {
  constructor(private _model: TPUModel) {}

  /** *source*: what is suggested. */
  async copy(tpu: ITPU, source = ''): Promise<void> {
    await (await import('./fileDialogs')).copyFiles(tpu, this._model, source);
  }

  /** *folder*: what is suggested; without it, what was synced last, or all that Jupyter shows. */
  async sync(tpu: ITPU, folder = this._synced): Promise<void> {
    const { syncFolder } = await import('./fileDialogs');
    this._synced = await syncFolder(tpu, this._model, folder);
  }

  /** Copies the files in conflict: those of this computer, or those of the TPU; whether it began. */
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

  /** Copies the same again, and overwrites the files that were in its way. */
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

// Folders that hosts share: what would be done is shown first, by an operation that changes nothing.

import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { IOperation, ISharedFolder, IShareFolder, ITPU } from '../rest/api';
import { attempt } from '../ui/attempt';
import { Lookups } from '../ui/loaded';
import { shareResult } from './results';

export class ShareActions {
  constructor(private _model: TPUModel) {
    this.lookups = new Lookups(tpu => _model.client.shares.list(tpu));
    _model.operationEnded.connect(this._onEnded, this);
  }

  /** Asking the hosts; what they said is then in the TPU. */
  readonly lookups;

  /** Asks for a folder, shows what sharing it changes, and does it. */
  async share(tpu: ITPU): Promise<void> {
    const others = this._model.tpus.filter(
      one => one.zone === tpu.zone && one.state === 'READY' && one.id !== tpu.id
    );
    const { askShare } = await import('./shareDialog');
    await askShare(tpu, others, request => this._plan(tpu, request));
  }

  /** Takes a folder from all other hosts; shows before what that changes. */
  async stop(tpu: ITPU, folder: ISharedFolder): Promise<void> {
    const request = { folder: folder.path, remove: true };
    await attempt(this._plan(tpu, request));
  }

  /** Does again what an operation failed to do; shows before what that changes. */
  async again(tpu: ITPU, operation: IOperation): Promise<void> {
    const result = shareResult(operation);
    if (result) {
      await attempt(this._plan(tpu, result.request));
    } else {
      await this.share(tpu); // it ended with its server
    }
  }

  /** Throws `Failure`. */
  private async _plan(tpu: ITPU, request: IShareFolder): Promise<void> {
    const operation = await this._model.begin(async () => {
      const plan = { ...request, dry_run: true };
      const begun = await this._model.client.shares.start(tpu, plan);
      this._planned = begun.id;
      return begun;
    }, 0);
    if (operation.state !== 'running') {
      void this._propose(operation);
    }
  }

  /** Shows what an operation has planned, and does it if the user agrees. */
  private async _propose(operation: IOperation): Promise<void> {
    this._planned = '';
    const result = shareResult(operation);
    const tpu = this._model.tpu(
      keyOf({ name: operation.tpu, zone: operation.zone })
    );
    if (operation.state !== 'done' || !result || !tpu) {
      return; // the panel says why
    }
    const { confirmShare } = await import('./shareDialog');
    const agreed = await confirmShare(result);
    this._model.dismiss(operation.id);
    if (agreed) {
      const request = { ...result.request, dry_run: false };
      await attempt(
        this._model.begin(() => this._model.client.shares.start(tpu, request))
      );
    }
  }

  private _onEnded(_: unknown, operation: IOperation): void {
    if (operation.id === this._planned) {
      void this._propose(operation);
    }
  }

  /** The operation whose plan is to be shown. */
  private _planned = '';
}

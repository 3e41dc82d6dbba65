// Folders that hosts share: what would be done is shown first, by an operation that changes nothing.

import { IShareActions } from '../actions/panelActions';
import { TPUModel } from '../model/model';
import { IOperation, ISharedFolder, IShareFolder, ITPU } from '../rest/api';
import { Lookups } from '../state/loaded';
import { until } from '../state/observable';
import { attempt } from '../ui/attempt';
import { resultOf } from './results';

export class ShareActions implements IShareActions {
  constructor(private _model: TPUModel) {
    this.lookups = new Lookups(tpu => _model.client.shares.list(tpu));
  }

  readonly lookups;

  async share(tpu: ITPU): Promise<void> {
    const others = this._model.tpus.filter(
      one => one.zone === tpu.zone && one.state === 'READY' && one.id !== tpu.id
    );
    const { askShare } = await import('./fileDialogs');
    await askShare(tpu, others, request => this._plan(tpu, request));
  }

  async stop(tpu: ITPU, folder: ISharedFolder): Promise<void> {
    const request = { folder: folder.path, remove: true };
    await attempt(this._plan(tpu, request));
  }

  async again(tpu: ITPU, operation: IOperation): Promise<void> {
    const result = resultOf('share', operation);
    if (result) {
      await attempt(this._plan(tpu, result.request));
    } else {
      await this.share(tpu); // it ended with its server
    }
  }

  /** Begins to plan; what is planned is then shown. Throws `Failure`. */
  private async _plan(tpu: ITPU, request: IShareFolder): Promise<void> {
    const { client } = this._model;
    const plan = { ...request, dry_run: true };
    const { id } = await this._model.begin(
      () => client.shares.start(tpu, plan),
      0
    );
    void this._propose(tpu, id);
  }

  /** Shows what an operation has planned, and does it if the user agrees. */
  private async _propose(tpu: ITPU, id: string): Promise<void> {
    const operation = await until(this._model, () => {
      const now = this._model.operation(id);
      return now && now.state !== 'running' ? now : null;
    });
    const result = resultOf('share', operation);
    if (operation.state !== 'done' || !result) {
      return; // the panel says why
    }
    const { confirmShare } = await import('./shareSteps');
    const agreed = await confirmShare(result);
    this._model.dismiss(id);
    if (agreed) {
      const request = { ...result.request, dry_run: false };
      await attempt(
        this._model.begin(() => this._model.client.shares.start(tpu, request))
      );
    }
  }
}

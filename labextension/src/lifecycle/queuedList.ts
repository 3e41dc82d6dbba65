// The queued resources of the project, and what can be done to them.

import { IQueuedResource, IQueuedResources } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Loaded } from '../ui/loaded';

export class QueuedList extends Loaded<IQueuedResources> {
  constructor(private _requests: TPUClient['queued']) {
    super(() => _requests.list({ fresh: this._asked || undefined }));
  }

  /** Why the last deletion or reset was refused; it stays until the next one. */
  refusal: Failure | null = null;

  /** Whether a request is on its way. */
  get busy(): boolean {
    return this.loading || this._acting > 0;
  }

  /** asked: somebody looks, and Google is asked now. */
  load(asked = true): Promise<void> {
    this._asked = asked;
    return super.load();
  }

  /**
   * Begins to delete it, with the TPUs that it was shown to have. name: its name again, where it
   * belongs to another person.
   */
  async delete(one: IQueuedResource, name = ''): Promise<void> {
    await this._act(() =>
      this._requests.delete(one, {
        force: one.has_tpus,
        ...(name && { confirm_name: name })
      })
    );
  }

  /** Puts it back into the queue. name: as for `delete`. */
  async reset(one: IQueuedResource, name = ''): Promise<void> {
    await this._act(() =>
      this._requests.reset(one, name ? { confirm_name: name } : {})
    );
    if (!this.refusal) {
      await this.load();
    }
  }

  private async _act(request: () => Promise<object>): Promise<void> {
    this._acting += 1;
    this.refusal = null;
    this.changed();
    try {
      await request();
    } catch (error) {
      this.refusal = Failure.from(error);
    } finally {
      this._acting -= 1;
      this.changed();
    }
  }

  private _acting = 0;
  private _asked = true;
}

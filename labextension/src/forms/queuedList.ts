// The queued resources of the project, and what can be done to them.

import { IProblem, IQueuedResource } from '../api';
import { Failure, TPUClient } from '../model/client';
import { Store } from '../store';

export class QueuedList extends Store {
  constructor(
    private _client: Pick<TPUClient, 'deleteQueued' | 'queued' | 'resetQueued'>
  ) {
    super();
  }

  /** The oldest first; null until that is known. */
  get items(): IQueuedResource[] | null {
    return this._items;
  }

  /** Why the last request failed, or the list may be incomplete. */
  get problem(): IProblem | Failure | null {
    return this._problem;
  }

  /** Whether a request is on its way. */
  get busy(): boolean {
    return this._busy > 0;
  }

  /** asked: somebody looks, and Google is asked now. */
  load(asked = true): Promise<void> {
    return this._ask(async () => {
      const { problem, queued } = await this._client.queued(asked);
      this._items = queued;
      this._problem = problem;
    });
  }

  /**
   * Begins to delete it, with the TPUs that it was shown to have. name: its name again, where it
   * belongs to another person.
   */
  delete(one: IQueuedResource, name = ''): Promise<void> {
    return this._ask(async () => {
      await this._client.deleteQueued(one, {
        force: one.has_tpus,
        ...(name && { confirm_name: name })
      });
    });
  }

  /** Puts it back into the queue. name: as for `delete`. */
  async reset(one: IQueuedResource, name = ''): Promise<void> {
    await this._ask(async () => {
      await this._client.resetQueued(one, name ? { confirm_name: name } : {});
    });
    if (!this._problem) {
      await this.load();
    }
  }

  private async _ask(request: () => Promise<void>): Promise<void> {
    this._busy += 1;
    this._problem = null;
    this.changed();
    try {
      await request();
    } catch (error) {
      this._problem = Failure.from(error);
    } finally {
      this._busy -= 1;
      this.changed();
    }
  }

  private _busy = 0;
  private _items: IQueuedResource[] | null = null;
  private _problem: IProblem | Failure | null = null;
}

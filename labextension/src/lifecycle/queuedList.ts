// The queued resources of the project, and what can be done to them.

import { IProblem, IQueuedResource } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store } from '../ui/store';

export class QueuedList extends Store {
  constructor(private _requests: TPUClient['queued']) {
    super();
  }

  /** The oldest first; null until that is known. */
  get items(): IQueuedResource[] | null {
    return this._items;
  }

  /** Why the list could not be loaded, or may be incomplete. */
  get problem(): IProblem | Failure | null {
    return this._problem;
  }

  /** Why the last deletion or reset was refused; it stays until the next one. */
  get refusal(): Failure | null {
    return this._refusal;
  }

  /** Whether a request is on its way. */
  get busy(): boolean {
    return this._busy > 0;
  }

  /** asked: somebody looks, and Google is asked now. */
  async load(asked = true): Promise<void> {
    const load = (this._loads += 1);
    const answer = await this._send(() =>
      this._requests.list({ fresh: asked || undefined })
    );
    if (load !== this._loads) {
      return; // a later one knows better
    }
    if (answer instanceof Failure) {
      this._problem = answer;
    } else {
      this._items = answer.queued;
      this._problem = answer.problem;
    }
    this.changed();
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
    if (!this._refusal) {
      await this.load();
    }
  }

  private async _act(request: () => Promise<object>): Promise<void> {
    this._refusal = null;
    const answer = await this._send(request);
    this._refusal = answer instanceof Failure ? answer : null;
    this.changed();
  }

  private async _send<T>(request: () => Promise<T>): Promise<T | Failure> {
    this._busy += 1;
    this.changed();
    try {
      return await request();
    } catch (error) {
      return Failure.from(error);
    } finally {
      this._busy -= 1;
      this.changed();
    }
  }

  private _busy = 0;
  private _items: IQueuedResource[] | null = null;
  private _loads = 0;
  private _problem: IProblem | Failure | null = null;
  private _refusal: Failure | null = null;
}

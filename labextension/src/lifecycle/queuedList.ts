// The queued resources of the project.

import { IQueuedResources } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Loaded } from '../state/loaded';
import { Form } from '../ui/form';

export class QueuedList extends Loaded<IQueuedResources> {
  constructor(requests: TPUClient['queued']) {
    super(() => requests.list({ fresh: this._asked || undefined }));
    this.changes.stateChanged.connect(() => this.changed());
  }

  /** Sends deletions and resets. Why the last one was refused stays until the next one. */
  readonly changes = new Form({});

  /** Whether a request is on its way. */
  get busy(): boolean {
    return this.loading || this.changes.submitting;
  }

  /** asked: somebody looks, and Google is asked now. */
  load(asked = true): Promise<void> {
    this._asked = asked;
    return super.load();
  }

  private _asked = true;
}

// All TPUs and queued resources, and whose they are.

import { IUsage } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Loaded } from '../state/loaded';

export class UsageList extends Loaded<IUsage> {
  constructor(requests: TPUClient['usage']) {
    super(() =>
      requests.show({ projects: this.fields.projects.trim() || undefined })
    );
  }

  /** What the user typed: IDs of projects, "" for this server's. */
  fields = { projects: '' };

  set(_: 'projects', projects: string): void {
    this.fields = { projects };
    this.changed();
  }

  problemOf(): string {
    return '';
  }
}

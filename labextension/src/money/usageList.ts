// All TPUs and queued resources, and whose they are.

import { IUsage } from '../rest/api';
import { TPUClient } from '../rest/client';
import { Failure } from '../rest/failure';
import { Store } from '../ui/store';

export class UsageList extends Store {
  constructor(private _requests: TPUClient['usage']) {
    super();
  }

  /** Null until that is known. */
  get usage(): IUsage | null {
    return this._usage;
  }

  /** Why it could not be loaded. */
  get failure(): Failure | null {
    return this._failure;
  }

  get busy(): boolean {
    return this._busy;
  }

  /** What the user typed: IDs of projects, "" for this server's. */
  get projects(): string {
    return this._projects;
  }

  set projects(text: string) {
    this._projects = text;
    this.changed();
  }

  async load(): Promise<void> {
    this._busy = true;
    this._failure = null;
    this.changed();
    try {
      this._usage = await this._requests.show({
        projects: this._projects.trim() || undefined
      });
    } catch (error) {
      this._failure = Failure.from(error);
    }
    this._busy = false;
    this.changed();
  }

  private _busy = false;
  private _failure: Failure | null = null;
  private _projects = '';
  private _usage: IUsage | null = null;
}

// Requests that change a TPU. Why the last one for each TPU failed is kept, for its entry to show.

import { IOperation } from '../rest/api';
import { Failure } from '../rest/failure';
import { keyOf, TPURef } from './resources';

export class TPURequests {
  /** *onChange* is called when `failure` may have changed. */
  constructor(
    private _onOperation: (operation: IOperation) => void,
    private _onChange: () => void
  ) {}

  /** Whether the request was accepted; if not, `failure` says why. */
  async send(
    tpu: TPURef,
    request: () => Promise<IOperation | void>
  ): Promise<boolean> {
    this.dismiss(tpu);
    try {
      const operation = await request();
      if (operation) {
        this._onOperation(operation);
      }
    } catch (error) {
      this.fail(tpu, error);
      return false;
    }
    this._onChange();
    return true;
  }

  /** What a request has led to failed. */
  fail(tpu: TPURef, error: unknown): void {
    this._failures.set(keyOf(tpu), Failure.from(error));
    this._onChange();
  }

  failure(tpu: TPURef): Failure | undefined {
    return this._failures.get(keyOf(tpu));
  }

  dismiss(tpu: TPURef): void {
    this._failures.delete(keyOf(tpu));
    this._onChange();
  }

  /** Forgets the failures of the TPUs that are gone. */
  retain(exists: (key: string) => boolean): void {
    for (const key of this._failures.keys()) {
      if (!exists(key)) {
        this._failures.delete(key);
      }
    }
  }

  private _failures = new Map<string, Failure>();
}

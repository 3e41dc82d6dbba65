// What operations on files have done so far; null for other operations.

import {
  ICopyResult,
  IOperation,
  IShareResult,
  ISyncResult
} from '../rest/api';

function resultOf<T>(kind: IOperation['kind'], operation: IOperation) {
  return operation.kind === kind ? (operation.result as T | null) : null;
}

export function copyResult(operation: IOperation): ICopyResult | null {
  return resultOf('copy', operation);
}

/** Also of planning to share a folder. */
export function shareResult(operation: IOperation): IShareResult | null {
  return resultOf('share', operation);
}

export function syncResult(operation: IOperation): ISyncResult | null {
  return resultOf('sync', operation);
}

/** Whether a copy failed because files exist, which it would have overwritten. */
export function wouldOverwrite(operation: IOperation): boolean {
  return operation.kind === 'copy' && operation.problem?.reason === 'EXISTS';
}

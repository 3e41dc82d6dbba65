// What operations on files have done.

import {
  ICopyResult,
  IOperation,
  IShareResult,
  ISyncResult
} from '../rest/api';

/** The result of a copy so far; null for other operations. */
export function copyResult(operation: IOperation): ICopyResult | null {
  return operation.kind === 'copy'
    ? (operation.result as unknown as ICopyResult | null)
    : null;
}

/** Whether a copy failed because files exist, which it would have overwritten. */
export function wouldOverwrite(operation: IOperation): boolean {
  return operation.kind === 'copy' && operation.problem?.reason === 'EXISTS';
}

/** The result of sharing a folder so far, or of planning that; null for other operations. */
export function shareResult(operation: IOperation): IShareResult | null {
  return operation.kind === 'share'
    ? (operation.result as unknown as IShareResult | null)
    : null;
}

/** The result of a sync so far; null for other operations. */
export function syncResult(operation: IOperation): ISyncResult | null {
  return operation.kind === 'sync'
    ? (operation.result as unknown as ISyncResult | null)
    : null;
}

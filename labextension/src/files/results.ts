// What operations on files have done so far.

import {
  ICopyResult,
  IOperation,
  IShareResult,
  ISyncResult
} from '../rest/api';

/** By the kinds of operations; also of planning to share a folder. */
interface IResults {
  copy: ICopyResult;
  share: IShareResult;
  sync: ISyncResult;
}

/** The result of an operation of this kind; null for other operations. */
export function resultOf<K extends keyof IResults>(
  kind: K,
  operation: IOperation
): IResults[K] | null {
  return operation.kind === kind
    ? (operation.result as IResults[K] | null)
    : null;
}

/** Whether a copy failed because files exist, which it would have overwritten. */
export function wouldOverwrite(operation: IOperation): boolean {
  return operation.kind === 'copy' && operation.problem?.reason === 'EXISTS';
}

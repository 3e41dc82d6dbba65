// Requests that take seconds.

import { Notification } from '@jupyterlab/apputils';

import { notify } from './notify';
import { failureLine } from './failures';
import { trans } from './translation';

/** Shows that something takes a while, and can be cancelled; null if it failed. */
export function wait<T>(
  message: string,
  begin: (signal: AbortSignal) => Promise<T>
): Promise<T | null> {
  const aborter = new AbortController();
  return waitToEnd(message, begin(aborter.signal), aborter);
}

/** As `wait`, for what can't be cancelled without an *aborter*. */
export async function waitToEnd<T>(
  message: string,
  request: Promise<T>,
  aborter?: AbortController
): Promise<T | null> {
  const id = Notification.emit(message, 'in-progress', {
    autoClose: false,
    actions: aborter && [
      { label: trans.__('Cancel'), callback: () => aborter.abort() }
    ]
  });
  try {
    return await request;
  } catch (error) {
    if (!aborter?.signal.aborted) {
      notify.error(failureLine(error));
    }
    return null;
  } finally {
    Notification.dismiss(id);
  }
}

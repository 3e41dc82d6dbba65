// Requests that take seconds.

import { Notification } from '@jupyterlab/apputils';

import { trans } from '../language/translation';
import { failureLine } from '../rest/failureText';
import { notify } from './notify';

/** Milliseconds after which somebody who has pressed a button waits for something to happen. */
const UNNOTICED_MILLISECONDS = 500;

/** Begins something; what it calls back with is how much of it is done, 0 to 1. */
type Begin<T> = (
  signal: AbortSignal,
  onProgress: (part: number) => void
) => Promise<T>;

/** Shows that something takes a while, and can be cancelled; null if it failed. */
export async function wait<T>(
  message: string,
  begin: Begin<T>,
  cancellable = true
): Promise<T | null> {
  try {
    return await waitOrThrow(message, begin, cancellable);
  } catch (error) {
    notify.error(failureLine(error));
    return null;
  }
}

/** As `wait`, for what can't be cancelled. */
export function waitToEnd<T>(
  message: string,
  request: Promise<T>
): Promise<T | null> {
  return wait(message, () => request, false);
}

/** The result of *request*, or what it throws; that it takes a while is shown when it does. */
export async function waitIfSlow<T>(
  message: string,
  request: Promise<T>
): Promise<T> {
  let id = '';
  const timer = setTimeout(() => {
    id = Notification.emit(message, 'in-progress', { autoClose: false });
  }, UNNOTICED_MILLISECONDS);
  try {
    return await request;
  } finally {
    clearTimeout(timer);
    Notification.dismiss(id);
  }
}

/** As `wait`, but throws what *begin* throws; null if it was cancelled. */
export async function waitOrThrow<T>(
  message: string,
  begin: Begin<T>,
  cancellable = true
): Promise<T | null> {
  const aborter = new AbortController();
  const cancel = {
    label: trans.__('Cancel'),
    callback: () => aborter.abort()
  };
  const id = Notification.emit(message, 'in-progress', {
    autoClose: false,
    actions: cancellable ? [cancel] : []
  });
  try {
    return await begin(aborter.signal, progress => {
      Notification.update({ id, progress });
    });
  } catch (error) {
    if (aborter.signal.aborted) {
      return null;
    }
    throw error;
  } finally {
    Notification.dismiss(id);
  }
}

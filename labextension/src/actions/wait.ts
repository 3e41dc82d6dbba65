// Requests that take seconds.

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { failureText } from '../labels/failures';
import { Failure } from '../model/client';

/** Shows that something takes a while, and can be cancelled; null if it failed. */
export async function wait<T>(
  message: string,
  begin: (signal: AbortSignal) => Promise<T>,
  trans: TranslationBundle
): Promise<T | null> {
  const aborter = new AbortController();
  const id = Notification.emit(message, 'in-progress', {
    autoClose: false,
    actions: [{ label: trans.__('Cancel'), callback: () => aborter.abort() }]
  });
  try {
    return await begin(aborter.signal);
  } catch (error) {
    if (!aborter.signal.aborted) {
      const { message, hint } = failureText(Failure.from(error), trans);
      Notification.error(`${message} ${hint}`.trim(), { autoClose: false });
    }
    return null;
  } finally {
    Notification.dismiss(id);
  }
}

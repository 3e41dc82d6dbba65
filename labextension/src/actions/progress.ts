// A notification while a request runs.

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { failureText } from '../labels/failures';
import { Failure } from '../model/client';

/** The answer of a request that takes a while; undefined if it failed. */
export async function withProgress<T>(
  text: string,
  request: Promise<T>,
  trans: TranslationBundle
): Promise<T | undefined> {
  const id = Notification.emit(text, 'in-progress', { autoClose: false });
  try {
    return await request;
  } catch (error) {
    const { message, hint } = failureText(Failure.from(error), trans);
    Notification.error(`${message} ${hint}`.trim(), { autoClose: false });
    return undefined;
  } finally {
    Notification.dismiss(id);
  }
}

// What the user has started and no part of the panel follows: a notification says why it failed.

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { failureLine } from './failures';

/** Never throws. */
export async function attempt(
  started: Promise<unknown>,
  trans: TranslationBundle
): Promise<void> {
  try {
    await started;
  } catch (error) {
    Notification.error(failureLine(error, trans), { autoClose: false });
  }
}

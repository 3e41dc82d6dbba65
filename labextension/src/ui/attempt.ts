// What the user has started and no part of the panel follows: a notification says why it failed.

import { failureLine } from '../rest/failureText';
import { notify } from './notify';

/** Never throws. */
export async function attempt(started: Promise<unknown>): Promise<void> {
  try {
    await started;
  } catch (error) {
    notify.error(failureLine(error));
  }
}

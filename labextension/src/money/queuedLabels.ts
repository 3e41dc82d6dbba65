// What the panel says of requests that wait at Google.

import { trans } from '../language/translation';
import { stateLabel } from '../model/tpuLabels';

/** The state of a queued resource in a word. */
export function queuedState(state: string): string {
  const labels: { [state: string]: string } = {
    ACCEPTED: trans.__('Accepted'),
    ACTIVE: trans.__('Active'),
    PROVISIONING: trans.__('Provisioning'),
    SUSPENDED: trans.__('Suspended'),
    SUSPENDING: trans.__('Suspending'),
    WAITING_FOR_RESOURCES: trans.__('Waiting for resources')
  };
  return labels[state] ?? stateLabel({ state });
}

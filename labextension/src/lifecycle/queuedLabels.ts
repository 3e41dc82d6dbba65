// What the panel says of requests that wait at Google.

import { stateLabel } from '../panel/tpuLabels';
import { trans } from '../ui/translation';

/** The state of a queued resource in a word. */
export function queuedState(state: string): string {
  switch (state) {
    case 'ACCEPTED':
      return trans.__('Accepted');
    case 'ACTIVE':
      return trans.__('Active');
    case 'PROVISIONING':
      return trans.__('Provisioning');
    case 'SUSPENDED':
      return trans.__('Suspended');
    case 'SUSPENDING':
      return trans.__('Suspending');
    case 'WAITING_FOR_RESOURCES':
      return trans.__('Waiting for resources');
    default:
      return stateLabel({ state });
  }
}

// What the panel says of hunts.

import { clock, Tone, trans } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { IHunt, IHuntAttempt } from '../rest/api';

export const ATTEMPT_TONES: { [state in IHuntAttempt['state']]: Tone } = {
  cancelled: 'quiet',
  failed: 'bad',
  found: 'good',
  trying: 'moving'
};

export function attemptState(state: IHuntAttempt['state']): string {
  return {
    cancelled: trans.__('cancelled'),
    failed: trans.__('failed'),
    found: trans.__('created'),
    trying: trans.__('trying')
  }[state];
}

/** "v5litepod-8 · Spot · us-west4-a", and whether it waits in the queue. */
export function attemptPlace({
  tier,
  type,
  unattended,
  zone
}: IHuntAttempt): string {
  const place = `${type} · ${tierLabel(tier)} · ${zone}`;
  return unattended ? trans.__('%1 · in the queue', place) : place;
}

/** When the next attempt begins, and what happens while this computer is off. */
export function huntOutlook(hunt: IHunt, now: Date): string[] {
  if (hunt.waiting) {
    return [trans.__('It begins when %1 is preempted.', hunt.name)];
  }
  const last = hunt.attempts[hunt.attempts.length - 1];
  if (last?.state === 'trying') {
    return [
      last.unattended
        ? trans.__('This attempt continues while this computer is off.')
        : trans.__('No other attempt begins while this computer is off.')
    ];
  }
  return [
    ...(hunt.next_attempt
      ? [trans.__('Next attempt at %1.', clock(hunt.next_attempt, now))]
      : []),
    trans.__('No attempt begins while this computer is off.')
  ];
}

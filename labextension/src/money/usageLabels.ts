// Who has which TPUs, in words.

import { queuedState } from '../lifecycle/queuedLabels';
import { stateLabel } from '../panel/tpuLabels';
import { IOwnerUsage, IUsedTPU } from '../rest/api';
import { Tone, trans } from '../ui/translation';
import { usd } from './costLabels';

/** Whose it is. */
export function ownerLabel(used: IUsedTPU): string {
  if (used.mine) {
    return trans.__('yours');
  }
  if (!used.owner) {
    return trans.__('owner unknown');
  }
  return used.owner_source === 'ssh-keys'
    ? trans.__('%1 (by its SSH key)', used.owner)
    : used.owner;
}

/** What one owner has: "ana holds 32 of 64 chips · about $19.20 an hour". */
export function ownerSummary(owner: IOwnerUsage, chips: number): string {
  const parts = [heldChips(owner, chips)];
  if (owner.usd_per_hour) {
    parts.push(trans.__('about %1 an hour', usd(owner.usd_per_hour)));
  }
  if (owner.usd) {
    parts.push(trans.__('about %1 so far', usd(owner.usd)));
  }
  if (owner.unpriced) {
    parts.push(trans.__('%1 without a known price', owner.unpriced));
  }
  if (owner.blocked_chips) {
    parts.push(
      trans._n(
        'failed queued resources use quota for %1 chip',
        'failed queued resources use quota for %1 chips',
        owner.blocked_chips
      )
    );
  }
  return parts.join(' · ');
}

function heldChips(
  { chips: held, mine, owner }: IOwnerUsage,
  chips: number
): string {
  if (mine) {
    return held
      ? trans._n(
          'You hold %2 of %1 chip',
          'You hold %2 of %1 chips',
          chips,
          held
        )
      : trans.__('You have no chips');
  }
  if (owner) {
    return held
      ? trans._n(
          '%2 holds %3 of %1 chip',
          '%2 holds %3 of %1 chips',
          chips,
          owner,
          held
        )
      : trans.__('%1 has no chips', owner);
  }
  return held
    ? trans._n(
        'Unknown owners hold %2 of %1 chip',
        'Unknown owners hold %2 of %1 chips',
        chips,
        held
      )
    : trans.__('Unknown owners have no chips');
}

/** The state of an entry, and how it looks. */
export function usedStatus(used: IUsedTPU): { label: string; tone: Tone } {
  if (used.forgotten) {
    return { label: trans.__('Forgotten?'), tone: 'bad' };
  }
  if (used.connected) {
    return { label: trans.__('Connected'), tone: 'good' };
  }
  return {
    label: used.kind === 'queued' ? queuedState(used.state) : stateLabel(used),
    tone: used.holds === 'quota' ? 'bad' : 'quiet'
  };
}

/** Its costs in a line; "" where it costs nothing. */
export function usedCost(used: IUsedTPU): string {
  const { usd: soFar, usd_per_hour: hourly } = used.cost;
  const parts = [];
  if (hourly === null) {
    parts.push(trans.__('price unknown'));
  } else if (hourly > 0) {
    parts.push(trans.__('about %1 an hour', usd(hourly)));
  }
  if (soFar) {
    parts.push(trans.__('about %1 so far', usd(soFar)));
  }
  return parts.join(' · ');
}

// Who has which TPUs, in words.

import { facts } from '../language/text';
import { Tone, trans, usd } from '../language/translation';
import { stateLabel } from '../model/tpuLabels';
import { IOwnerUsage, IUsedTPU } from '../rest/api';
import { queuedState } from './queuedLabels';

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
  const { blocked_chips: blocked, unpriced } = owner;
  return facts(
    heldChips(owner, chips),
    owner.usd_per_hour > 0 &&
      trans.__('about %1 an hour', usd(owner.usd_per_hour)),
    owner.usd > 0 && trans.__('about %1 so far', usd(owner.usd)),
    unpriced > 0 && trans.__('%1 without a known price', unpriced),
    blocked > 0 &&
      trans._n(
        'preempted TPUs and failed queued resources use quota for %1 chip',
        'preempted TPUs and failed queued resources use quota for %1 chips',
        blocked
      )
  );
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
  return facts(
    hourly === null
      ? trans.__('price unknown')
      : hourly > 0 && trans.__('about %1 an hour', usd(hourly)),
    soFar && trans.__('about %1 so far', usd(soFar))
  );
}

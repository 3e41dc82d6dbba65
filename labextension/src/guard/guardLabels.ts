// When a TPU stops or deletes itself, in words.

import { facts } from '../language/text';
import { clock, trans, usd } from '../language/translation';
import { IGuard, ITPU } from '../rest/api';

/** When a TPU stops or deletes itself. */
export type ILimits = Pick<IGuard, 'action' | 'idle' | 'max_cost' | 'until'>;

/** "Stops at 02:10: idle"; "Busy with a job". */
export function guardLabel(guard: IGuard): string {
  const stops = guard.action === 'stop';
  if (guard.phase === 'ending') {
    return stops ? trans.__('Stops now') : trans.__('Is deleted now');
  }
  if (guard.ends) {
    const time = clock(guard.ends);
    const why = {
      '': '',
      idle: trans.__('idle'),
      time: trans.__('its time limit is reached'),
      cost: trans.__('its cost limit is reached')
    }[guard.reason];
    return stops
      ? trans.__('Stops at %1: %2', time, why)
      : trans.__('Is deleted at %1: %2', time, why);
  }
  return guard.busy?.length
    ? trans.__('Busy with %1', guard.busy.join(', '))
    : guard.busy
      ? trans.__('No limit is near')
      : trans.__('No report from the host yet');
}

/** The same in as few words as a row has room for: "stops in 3 h"; "" without an end that is known. */
export function endLabel(
  { guard, run_ends }: Pick<ITPU, 'guard' | 'run_ends'>,
  now: number
): string {
  const ends = guard?.ends || run_ends;
  const stops = !!guard && guard.action === 'stop';
  if (guard?.phase === 'ending') {
    return stops ? trans.__('stops now') : trans.__('deletes now');
  }
  if (ends) {
    const left = shortTime(Math.max(0, Date.parse(ends) - now) / 1000);
    return stops
      ? trans.__('stops in %1', left)
      : trans.__('deletes in %1', left);
  }
  if (guard?.idle) {
    const time = shortTime(guard.idle);
    return stops
      ? trans.__('stops when idle %1', time)
      : trans.__('deletes when idle %1', time);
  }
  return !guard?.max_cost
    ? ''
    : stops
      ? trans.__('stops at %1', usd(guard.max_cost))
      : trans.__('deletes at %1', usd(guard.max_cost));
}

/** "45 min", "3 h", "4 d". */
function shortTime(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  return minutes < 60
    ? trans.__('%1 min', minutes)
    : minutes < 48 * 60
      ? trans.__('%1 h', Math.round(minutes / 6) / 10)
      : trans.__('%1 d', Math.round(minutes / 1440));
}

/** The limits that are chosen: "idle for 2 hours · $20.00 · 12/24/26, 8:00 AM". */
export function guardLimits({ idle, max_cost, until }: ILimits): string {
  return facts(
    idle && trans.__('idle for %1', durationLabel(idle)),
    max_cost && usd(max_cost),
    until && clock(until)
  );
}

/** What happens to a flex-start TPU at *ends*, RFC 3339. */
export function runEndLabel(ends: string): string {
  return trans.__(
    'Its run time ends at about %1. Google then deletes it with its disk. Save your results.',
    clock(ends)
  );
}

/** Seconds without work that are offered. */
export const IDLE_CHOICES = [1800, 3600, 7200, 28_800];

/** Seconds that a flex-start TPU may run; Google allows 7 days. */
export const RUN_CHOICES = [3600, 14_400, 28_800, 86_400, 259_200, 604_800];

/** *choices*, and what was *chosen* elsewhere. */
export function withChosen(
  choices: readonly number[],
  chosen: number | null
): number[] {
  const all = new Set([...choices, ...(chosen ? [chosen] : [])]);
  return [...all].sort((a, b) => a - b);
}

/** "30 minutes", "2 hours", "3 days". */
export function durationLabel(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes > 1440 && minutes % 1440 === 0) {
    return trans._n('%1 day', '%1 days', minutes / 1440);
  }
  return minutes % 60 === 0
    ? trans._n('%1 hour', '%1 hours', minutes / 60)
    : trans._n('%1 minute', '%1 minutes', minutes);
}

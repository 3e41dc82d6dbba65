// Saved variables in words.

import { sizeLabel } from '../forwarding/portLabels';
import { facts, joined } from '../language/text';
import { clock, trans } from '../language/translation';
import {
  IMissingVariable,
  ISession,
  ISessionOutcome,
  ISessionSetting
} from '../rest/api';

import { COMPUTER } from './sessionForm';

/** So many variables are named in a sentence. */
const NAMED = 5;

/** Where it is: the bucket, this computer, or the host whose disk has it. */
export function placeLabel({ host, hosts, place, tpu }: ISession): string {
  return (
    bucketLabel(place) ||
    (hosts > 1
      ? trans.__('Disks of %1 hosts of %2', hosts, tpu)
      : host > 0
        ? trans.__('Disk of host %1 of %2', host, tpu)
        : trans.__('Disk of %1', tpu))
  );
}

/** A place that is no host's disk; "" for one. */
function bucketLabel(place: string): string {
  return place === COMPUTER ? trans.__('this computer') : place;
}

/** "my-tpu (v5litepod-8)": whose kernel has saved it. */
export function originLabel({ tpu, type }: ISession): string {
  return type ? trans.__('%1 (%2)', tpu, type) : tpu;
}

/** "saved 14:02 · 41 variables · 1.2 GB · my-tpu (v5litepod-8) · gs://my-bucket/sessions". */
export function sessionFacts(session: ISession): string {
  const { expires, place, saved, size, variables } = session;
  return facts(
    trans.__('saved %1', clock(saved)),
    trans._n('%1 variable', '%1 variables', variables),
    sizeLabel(size),
    place && originLabel(session),
    placeLabel(session),
    expires && trans.__('kept until %1', clock(expires))
  );
}

/** "loader (a generator), log (an open file) and 3 more". */
export function missingLabel(
  missing: readonly IMissingVariable[],
  count: number
): string {
  const some = missing
    .slice(0, NAMED)
    .map(({ name, why }) => trans.__('%1 (%2)', name, why))
    .join(', ');
  const more = count - Math.min(NAMED, missing.length);
  return more > 0 ? trans.__('%1 and %2 more', some, more) : some;
}

/** The line that a notebook shows when *session* was restored, or its own kernel restarted. */
export function restoredText(
  outcome: ISessionOutcome,
  session?: ISession
): string {
  const { missing, missing_count, notes, variables } = outcome;
  const all = variables + missing_count;
  return joined(
    ' ',
    session
      ? trans.__(
          'Restored %1 of %2 variables, saved %3, from %4.',
          variables,
          all,
          clock(session.saved),
          originLabel(session)
        )
      : trans.__('Restored %1 of %2 variables.', variables, all),
    missing_count > 0 &&
      trans.__('Not there: %1.', missingLabel(missing, missing_count)),
    ...notes
  );
}

/** What became of one kernel: "saved 41 variables (1.2 GB, 3.1 MB of it new) in gs://my-bucket". */
export function outcomeText(outcome: ISessionOutcome): string {
  const { new: written, place, problem, size, state, variables } = outcome;
  const where = bucketLabel(place) || trans.__('the disk of its host');
  switch (state) {
    case 'saved':
      return trans.__(
        'saved %1 variables (%2, of which %3 was new) in %4',
        variables,
        sizeLabel(size),
        sizeLabel(written),
        where
      );
    case 'restored':
      return trans.__('restored %1 variables from %2', variables, where);
    case 'empty':
      return trans.__('has no variables');
    case 'waiting':
      return trans.__('waiting for its cell');
    default:
      return joined(' ', problem?.message, problem?.hint);
  }
}

/** Where and when the kernels of a TPU are saved. */
export function settingText(setting: ISessionSetting | null): string {
  if (!setting) {
    return trans.__('Variables are only saved when you ask for it.');
  }
  const { automatic, keep_days: days, max_gb, place, seconds } = setting;
  const when = automatic
    ? trans.__(
        'Saved when no cell has run for %1 s, and before the TPU is stopped or deleted.',
        seconds
      )
    : trans.__('Saved before the TPU is stopped or deleted.');
  const where = place
    ? place === COMPUTER
      ? trans.__(
          'On the host’s disk, and copied to this computer up to %1 GB.',
          max_gb
        )
      : trans.__('In %1.', place)
    : trans.__('On the host’s disk, which is lost when the TPU is deleted.');
  const kept = trans._n('Kept for %1 day.', 'Kept for %1 days.', days);
  return `${when} ${where} ${kept}`;
}

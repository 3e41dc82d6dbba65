// When a TPU stops or deletes itself: the fields of a dialog and of the form for a new TPU.

import { IGuard, ISetGuard } from '../rest/api';
import { FieldList } from '../ui/fields';
import { trans } from '../ui/translation';
import { durationLabel, IDLE_CHOICES, withChosen } from './guardLabels';

/** What is typed: seconds, USD, and a time of this computer; "" for no limit. */
export interface IGuardFields {
  idle: string;
  max_cost: string;
  until: string;
  action: 'delete' | 'stop';
}

/** What the fields show of *guard*. */
export function guardFields(guard?: IGuard | ISetGuard | null): IGuardFields {
  return {
    idle: String(guard?.idle ?? ''),
    max_cost: String(guard?.max_cost ?? ''),
    until: guard?.until ? localTime(guard.until) : '',
    action: guard?.action ?? 'stop'
  };
}

/** The limits as the server wants them; null without any. deletes: whether the TPU can't be stopped. */
export function guardOf(
  { action, idle, max_cost, until }: IGuardFields,
  deletes: boolean,
  notice?: number
): ISetGuard | null {
  if (!idle && !max_cost && !until) {
    return null;
  }
  return {
    action: deletes ? 'delete' : action,
    idle: idle ? Number(idle) : null,
    max_cost: max_cost ? Number(max_cost) : null,
    until: until ? new Date(until).toISOString() : '',
    ...(notice === undefined ? {} : { notice })
  };
}

/** A time as a field for dates and times has it. */
function localTime(time: string): string {
  const date = new Date(time);
  const local = date.getTime() - date.getTimezoneOffset() * 60_000;
  return new Date(local).toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length);
}

/** deletes: whether the TPU can't be stopped. */
export function guardFieldList(
  { idle }: IGuardFields,
  deletes: boolean
): FieldList<IGuardFields> {
  const deleted = ['delete', trans.__('It is deleted with its disk')] as const;
  return [
    {
      name: 'idle',
      label: trans.__('When it is idle'),
      help: trans.__('No running cell, job, terminal or program.'),
      kind: 'select',
      choices: [
        ['', trans.__('Keep it running')],
        ...withChosen(IDLE_CHOICES, idle).map(
          seconds =>
            [seconds, trans.__('After %1', durationLabel(seconds))] as const
        )
      ]
    },
    {
      name: 'max_cost',
      label: trans.__('Cost limit in US dollars'),
      help: trans.__('Approximate, since its creation. Empty: no limit.'),
      kind: 'number',
      min: '0.01',
      step: 'any'
    },
    {
      name: 'until',
      label: trans.__('Time limit'),
      help: trans.__('In your browser’s time zone. Empty: no limit.'),
      kind: 'datetime-local'
    },
    {
      name: 'action',
      label: trans.__('What happens then'),
      help: deletes
        ? trans.__('A Spot TPU or a TPU with several hosts can’t be stopped.')
        : trans.__('A stopped TPU keeps its disk.'),
      kind: 'select',
      disabled: deletes,
      shown: deletes ? 'delete' : undefined,
      choices: deletes
        ? [deleted]
        : [['stop', trans.__('It is stopped')], deleted]
    }
  ];
}

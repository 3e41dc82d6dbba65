// When a TPU stops or deletes itself: the fields of a dialog and of the form for a new TPU.

import { trans } from '../language/translation';
import { ISetGuard } from '../rest/api';
import { FieldList, IField } from '../ui/fields';
import { given, LOCAL_TIME, NUMBER } from '../ui/typed';
import {
  durationLabel,
  IDLE_CHOICES,
  ILimits,
  withChosen
} from './guardLabels';

const LIMITS: Omit<ILimits, 'action'> = {
  idle: null,
  max_cost: null,
  until: ''
};

export const NO_LIMITS: ILimits = { action: 'stop', ...LIMITS };

/** The limits as the server wants them; null without any. deletes: whether the TPU can't be stopped. */
export function guardOf(fields: ILimits, deletes: boolean): ISetGuard | null {
  const limits = given(fields, LIMITS);
  const action = deletes ? 'delete' : fields.action;
  return limits ? { action, ...limits } : null;
}

/** What happens to a TPU that nothing uses. deletes: whether it can't be stopped. */
export function idleField(
  { action, idle }: ILimits,
  deletes: boolean
): IField<ILimits> {
  const after = (time: string) =>
    deletes || action === 'delete'
      ? trans.__('Delete it after %1', time)
      : trans.__('Stop it after %1', time);
  return {
    name: 'idle',
    label: trans.__('When it is idle'),
    help: trans.__('No running cell, job, terminal or program.'),
    kind: 'select',
    choices: [
      [null, trans.__('Keep it running')],
      ...withChosen(IDLE_CHOICES, idle).map(
        seconds => [seconds, after(durationLabel(seconds))] as const
      )
    ]
  };
}

/** deletes: whether the TPU can't be stopped. */
export function guardFieldList(
  limits: ILimits,
  deletes: boolean
): FieldList<ILimits> {
  return [idleField(limits, deletes), ...limitFields(deletes)];
}

/** As `guardFieldList`, without what happens when it is idle. */
export function limitFields(deletes: boolean): FieldList<ILimits> {
  const deleted = ['delete', trans.__('It is deleted with its disk')] as const;
  return [
    {
      name: 'max_cost',
      label: trans.__('Cost limit in US dollars'),
      help: trans.__('Approximate, since its creation. Empty: no limit.'),
      kind: 'number',
      typed: NUMBER,
      min: '0.01',
      step: 'any'
    },
    {
      name: 'until',
      label: trans.__('Time limit'),
      help: trans.__('In your browser’s time zone. Empty: no limit.'),
      kind: 'datetime-local',
      typed: LOCAL_TIME
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

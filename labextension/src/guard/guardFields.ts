// The fields for when a TPU stops or deletes itself: of a dialog, and of the form for a new TPU.

import { FieldList } from '../ui/fields';
import { trans } from '../ui/translation';
import { IGuardFields } from './guardForm';
import { durationLabel, IDLE_CHOICES, withChosen } from './guardLabels';

/** deletes: whether the TPU can't be stopped. */
export function guardFieldList(
  { idle }: IGuardFields,
  deletes: boolean
): FieldList<IGuardFields> {
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
      name: 'cost',
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
    deletes
      ? {
          name: 'action',
          label: trans.__('What happens then'),
          help: trans.__(
            'A Spot TPU or a TPU with several hosts can’t be stopped.'
          ),
          kind: 'select',
          disabled: true,
          shown: 'delete',
          choices: [['delete', trans.__('It is deleted with its disk')]]
        }
      : {
          name: 'action',
          label: trans.__('What happens then'),
          help: trans.__('A stopped TPU keeps its disk.'),
          kind: 'select',
          choices: [
            ['stop', trans.__('It is stopped')],
            ['delete', trans.__('It is deleted with its disk')]
          ]
        }
  ];
}

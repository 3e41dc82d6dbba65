// The fields of the form for a new TPU that make it a hunt.

import { CreateForm, IFields } from '../lifecycle/createForm';
import { tierLabel } from '../panel/tpuLabels';
import { FieldList } from '../ui/fields';
import { trans } from '../ui/translation';
import { isQueued } from './huntForm';

/** Hours after which no attempt begins. */
const HOURS = ['1', '8', '24', '72'];

/** The fields below the box that begins a hunt. */
export function huntFieldList(form: CreateForm): FieldList<IFields> {
  const { fields } = form;
  return [
    {
      name: 'otherZones',
      label: trans.__('Other zones to try'),
      kind: 'ticks',
      choices: form.otherZones.map(name => [name, name])
    },
    {
      name: 'otherTypes',
      label: trans.__('Other types to try'),
      kind: 'ticks',
      choices: form.otherTypes.map(({ name, meaning }) => [name, name, meaning])
    },
    {
      name: 'otherTiers',
      label: trans.__('Other tiers to try'),
      kind: 'ticks',
      choices: form.otherTiers.map(name => [name, tierLabel(name)])
    },
    form.preemptible && {
      name: 'again',
      label: trans.__('Hunt again each time it is preempted'),
      help: trans.__(
        'Each new TPU is billed until it is deleted. To create no more TPUs, stop the hunt.'
      ),
      kind: 'check'
    },
    !fields.again && {
      name: 'hours',
      label: trans.__('Stop trying after'),
      kind: 'select',
      choices: [
        ['', trans.__('No limit')],
        ...HOURS.map(
          hours =>
            [hours, trans._n('%1 hour', '%1 hours', Number(hours))] as const
        )
      ]
    },
    {
      name: 'queued',
      label: trans.__('Wait in Google’s queue'),
      help: trans.__('Continues while this computer is off'),
      kind: 'check',
      shown: isQueued(fields)
    },
    isQueued(fields) && {
      name: 'direct',
      label: trans.__('Also try without the queue'),
      help: trans.__('Takes turns with the queue, while Jupyter runs'),
      kind: 'check'
    }
  ];
}

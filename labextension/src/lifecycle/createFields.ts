// The fields of the form for a new TPU, as tables.

import { limitFields } from '../guard/guardForm';
import { durationLabel, guardLimits } from '../guard/guardLabels';
import { isQueued } from '../hunts/huntForm';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { FieldList } from '../ui/fields';
import { NUMBER, OPTIONAL, SCRIPT } from '../ui/typed';
import { CreateForm, IFields } from './createForm';
import { packagesField } from './formPage';
import { nodeOptionFieldList, setupFieldList } from './hostOptions';

/** The network that every project has; a name, so not translated. */
const USUAL_NETWORK = 'default';

/** A command to type, so not translated. */
const COMMAND = 'python train.py';

/** Where it is created, how it is paid, and for how long a flex-start TPU runs. */
export function placeFields(form: CreateForm): FieldList<IFields> {
  const { zone } = form.fields;
  const home = form.catalog?.default_zone ?? '';
  return [
    {
      name: 'zone',
      label: trans.__('Zone'),
      help: !form.awayFromHome
        ? undefined
        : zone === form.nearestZone
          ? trans.__(
              'Your default zone, %1, does not offer this type. %2 is the nearest zone that does.',
              home,
              zone
            )
          : trans.__('Your default zone, %1, does not offer this type.', home),
      kind: 'select',
      choices: [...new Set([...form.zones, ...(zone ? [zone] : [])])].map(
        one => [one, one]
      )
    },
    {
      name: 'tier',
      label: trans.__('Tier'),
      kind: 'radio',
      choices: [
        [
          'on-demand',
          trans.__('On demand'),
          trans.__('Runs until you stop or delete it')
        ],
        [
          'spot',
          trans.__('Spot'),
          trans.__('Cheaper, but Google can preempt it at any time')
        ],
        [
          'reserved',
          trans.__('Reserved'),
          trans.__('From a reservation of your project')
        ],
        [
          'flex-start',
          trans.__('Flex-start'),
          trans.__(
            'Runs for a limited time. Waits in Google’s queue until there is capacity'
          )
        ]
      ]
    },
    form.limited && {
      name: 'run_for',
      label: trans.__('Flex-start runs for'),
      help: trans.__('Google then deletes it with its disk.'),
      kind: 'select',
      choices: form.runChoices.map(seconds => [seconds, durationLabel(seconds)])
    }
  ];
}

/** What it runs while nobody is there, and when it stops. */
export function unattendedFields(form: CreateForm): FieldList<IFields> {
  const { fields } = form;
  return [
    {
      name: 'then_run',
      label: trans.__('Command'),
      // What begins by itself is in the TPU's metadata, which others can read.
      help: form.unattended
        ? trans.__(
            'Starts as a job on all hosts, even while this computer is off. Others in the project can read it: do not enter secrets.'
          )
        : trans.__('Starts as a job on all hosts when it is connected.'),
      placeholder: COMMAND,
      typed: SCRIPT,
      disabled: !fields.connect
    },
    ...limitFields(form.deletes)
  ];
}

/** What is chosen in `unattendedFields`. */
export function unattendedChoices({ fields }: CreateForm): string {
  const limits = guardLimits({ ...fields, idle: null });
  return facts(fields.connect && fields.then_run, limits);
}

/** What few people change. *versions*: the id of a list of images. */
export function advancedFields(
  { fields }: CreateForm,
  versions: string
): FieldList<IFields> {
  return [
    {
      name: 'version',
      label: trans.__('Runtime version'),
      help: trans.__('OS image of the hosts'),
      list: versions
    },
    {
      name: 'disk_gb',
      label: trans.__('Boot disk size'),
      help: trans.__('GB for each host; Compute Engine only'),
      kind: 'number',
      typed: NUMBER,
      min: 1,
      placeholder: '200'
    },
    {
      name: 'api',
      label: trans.__('Control plane'),
      help: trans.__('Where both can make this type, your quota decides'),
      kind: 'select',
      choices: [
        [null, trans.__('Automatic')],
        ['tpu', trans.__('Cloud TPU')],
        ['compute', trans.__('Compute Engine')]
      ]
    },
    packagesField({ rows: 2, disabled: !fields.connect }),
    ...setupFieldList(!fields.connect),
    {
      name: 'network',
      label: trans.__('Network'),
      typed: OPTIONAL,
      placeholder: USUAL_NETWORK
    },
    {
      name: 'subnetwork',
      label: trans.__('Subnetwork'),
      typed: OPTIONAL,
      placeholder: USUAL_NETWORK
    },
    ...nodeOptionFieldList()
  ];
}

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

// The form that creates a TPU.

import React, { useEffect, useId, useRef, useState } from 'react';

import { Actions } from '../actions/actions';
import { durationLabel } from '../guard/guardLabels';
import { huntFieldList } from '../hunts/huntFields';
import { coveringGrant, usd } from '../money/costLabels';
import { Price } from '../money/price';
import { typeDescription } from '../panel/tpuLabels';
import { IReservationView } from '../rest/api';
import {
  Alert,
  Disclosure,
  EmptyState,
  Link,
  TextButton
} from '../ui/elements';
import { failureText } from '../ui/failures';
import { Field, TextField } from '../ui/field';
import { FieldList, FormFields } from '../ui/fields';
import { FormPage, packagesField, useUnfolding } from '../ui/formPage';
import { useStore } from '../ui/store';
import { language, trans } from '../ui/translation';
import { CreateForm, IFields } from './createForm';
import { nodeOptionFieldList, setupFieldList } from './fieldLists';
import { nameRule } from './names';
import { TypePicker } from './typePicker';
import { UnattendedFields } from './unattendedFields';

/** The network that every project has; a name, so not translated. */
const USUAL_NETWORK = 'default';

const ADVANCED = 'form#advanced';

const ADVANCED_FIELDS = [
  'version',
  'diskGB',
  'api',
  'packages',
  'apt',
  'timezone',
  'script',
  'network',
  'subnetwork',
  'serviceAccount',
  'dataDisks',
  'tags',
  'labels',
  'startupScript'
] as const;

export function CreatePage({ actions }: { actions: Actions }): JSX.Element {
  const { model, view } = actions;
  const form = useStore(actions.createForm);
  const advanced = useId();
  const first = useRef<HTMLInputElement>(null);
  const { items: grants } = useStore(actions.grantsForm);
  const loaded = form.catalog !== null;
  const billed = form.catalog?.emulated === false;
  useEffect(() => {
    if (billed) {
      void actions.grantsForm.load();
    }
  }, [billed]);
  useEffect(() => first.current?.select(), [loaded]);
  useUnfolding(form, ADVANCED_FIELDS, () => view.open(ADVANCED));

  if (!form.catalog) {
    return model.catalogError ? (
      <EmptyState
        title={trans.__('TPU types could not be loaded')}
        {...failureAsText(model.catalogError)}
      >
        <TextButton onClick={() => actions.openCreateForm()}>
          {trans.__('Try Again')}
        </TextButton>
      </EmptyState>
    ) : (
      <EmptyState busy title={trans.__('Loading TPU types…')} />
    );
  }

  const { fields, type } = form;
  const nameProblem = form.nameProblem();
  const open = view.isOpen(ADVANCED);
  const grant = coveringGrant(grants ?? [], type, {
    zone: fields.zone,
    tier: fields.tier,
    project: form.catalog.project
  });
  return (
    <FormPage
      actions={actions}
      form={form}
      label={trans.__('New TPU')}
      first={first}
      nameProblem={nameProblem}
      send={
        form.submitting
          ? trans.__('Creating…')
          : fields.hunt
            ? trans.__('Start Hunt')
            : trans.__('Create')
      }
    >
      {form.catalog.problem && (
        <Alert kind="warning" {...failureText(form.catalog.problem)} />
      )}
      <FormFields
        form={form}
        fields={[
          {
            name: 'name',
            label: trans.__('Name'),
            help: nameRule(),
            problem: nameProblem,
            input: first,
            autoComplete: 'off'
          }
        ]}
      />
      <Field
        label={trans.__('Type')}
        help={
          type && (
            <>
              {typeDescription(type)}
              {form.otherForm && (
                <>
                  {' '}
                  <Link
                    label={trans.__(
                      'Choose %1, which is %2',
                      form.otherForm.name,
                      form.otherForm.meaning
                    )}
                    onClick={() => form.set('type', form.otherForm!.name)}
                  >
                    {trans._n(
                      'Also on %1 VM: %2',
                      'Also on %1 VMs: %2',
                      form.otherForm.hosts,
                      form.otherForm.name
                    )}
                  </Link>
                </>
              )}
            </>
          )
        }
        problem={form.problemOf('type')}
      >
        {attributes => (
          <TypePicker
            attributes={attributes}
            groups={form.generations}
            value={fields.type}
            price={one => {
              const { list_usd_per_hour: price } = form.costOf(one);
              return price === null ? '' : trans.__('%1/h', usd(price));
            }}
            onPick={name => form.set('type', name)}
          />
        )}
      </Field>
      <FormFields form={form} fields={placeFields(form)} />
      {fields.tier === 'reserved' && <ReservationField actions={actions} />}
      <p className="jp-tpu-Price" role="status">
        <Price cost={{ ...form.cost, grant }} tier={fields.tier} />
        {billed && (
          <>
            {!grant && (
              <small>
                {trans.__('You pay while it is ready, used or not.')}{' '}
                {trans.__('In a grant, only network traffic is billed.')}
              </small>
            )}
            <TextButton onClick={() => actions.openGrants()}>
              {trans.__('Grants…')}
            </TextButton>
          </>
        )}
      </p>
      <FormFields
        form={form}
        fields={[
          {
            name: 'hunt',
            label: trans.__('Try until one is available'),
            help: trans.__(
              'Starts a hunt. It continues after a restart of Jupyter. You can stop it'
            ),
            kind: 'check'
          },
          fields.hunt && (
            <div className="jp-tpu-Form-advanced">
              <FormFields form={form} fields={huntFieldList(form)} />
            </div>
          ),
          {
            name: 'connect',
            label: trans.__('Connect when it is ready'),
            help: trans.__(
              'Installs Python and JAX on it, and adds its kernel'
            ),
            kind: 'check'
          }
        ]}
      />
      <UnattendedFields actions={actions} />
      <Disclosure
        open={open}
        controls={advanced}
        onToggle={() => view.toggle(ADVANCED)}
      >
        {trans.__('Advanced')}
      </Disclosure>
      {open && (
        <div id={advanced} className="jp-tpu-Form-advanced">
          <datalist id={`${advanced}versions`}>
            {form.catalog.versions.map(version => (
              <option key={version} value={version} />
            ))}
          </datalist>
          <FormFields
            form={form}
            fields={[
              {
                name: 'version',
                label: trans.__('Runtime version'),
                help: trans.__('OS image of the hosts'),
                list: `${advanced}versions`
              },
              {
                name: 'diskGB',
                label: trans.__('Boot disk size'),
                help: trans.__('GB for each host; Compute Engine only'),
                placeholder: '200'
              },
              {
                name: 'api',
                label: trans.__('Control plane'),
                help: trans.__(
                  'Where both can make this type, your quota decides'
                ),
                kind: 'select',
                choices: [
                  ['', trans.__('Automatic')],
                  ['tpu', trans.__('Cloud TPU')],
                  ['compute', trans.__('Compute Engine')]
                ]
              },
              packagesField({ rows: 2, disabled: !fields.connect })
            ]}
          />
          <FormFields form={form} fields={setupFieldList(!fields.connect)} />
          <FormFields
            form={form}
            fields={[
              {
                name: 'network',
                label: trans.__('Network'),
                placeholder: USUAL_NETWORK
              },
              {
                name: 'subnetwork',
                label: trans.__('Subnetwork'),
                placeholder: USUAL_NETWORK
              }
            ]}
          />
          <FormFields form={form} fields={nodeOptionFieldList()} />
        </div>
      )}
    </FormPage>
  );
}

/** Which reservation is used; those that can be are offered, with their dates. */
function ReservationField(props: { actions: Actions }): JSX.Element {
  const { createForm: form, model } = props.actions;
  const [reservations, setReservations] = useState<IReservationView[]>([]);
  const id = useId();
  useEffect(() => {
    // Who may not list them can type a name.
    model.client.reservations
      .list()
      .then(setReservations, () => setReservations([]));
  }, [model]);
  const day = (time: string) => new Date(time).toLocaleDateString(language);
  const coming = reservations.filter(one => one.future && !one.use);
  return (
    <>
      <TextField
        label={trans.__('Reservation')}
        help={
          coming.length
            ? trans.__(
                'Still to come: %1',
                coming
                  .map(one => trans.__('%1 from %2', one.name, day(one.start)))
                  .join(', ')
              )
            : trans.__('Required by Compute Engine')
        }
        problem={form.problemOf('reservation')}
        list={id}
        value={form.fields.reservation}
        onChange={value => form.set('reservation', value)}
      />
      <datalist id={id}>
        {reservations
          .filter(one => one.use)
          .map(one => (
            <option key={`${one.zone}/${one.use}`} value={one.use}>
              {[one.zone, one.type, one.end && day(one.end)]
                .filter(Boolean)
                .join(' · ')}
            </option>
          ))}
      </datalist>
    </>
  );
}

/** Where it is created, how it is paid, and for how long a flex-start TPU runs. */
function placeFields(form: CreateForm): FieldList<IFields> {
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
      name: 'runFor',
      label: trans.__('Flex-start runs for'),
      help: trans.__('Google then deletes it with its disk.'),
      kind: 'select',
      choices: form.runChoices.map(seconds => [seconds, durationLabel(seconds)])
    }
  ];
}

function failureAsText(failure: Parameters<typeof failureText>[0]): {
  text: string;
  hint: string;
} {
  const { message, hint } = failureText(failure);
  return { text: message, hint };
}

// The form that creates a TPU.

import React, { useEffect, useId, useRef, useState } from 'react';

import { useActions } from '../actions/useActions';
import { idleField } from '../guard/guardForm';
import { facts } from '../language/text';
import { language, trans, usd } from '../language/translation';
import { nameRule } from '../model/names';
import { typeDescription } from '../model/tpuLabels';
import { coveringGrant } from '../money/costLabels';
import { GrantsForm } from '../money/grantsForm';
import { Price } from '../money/price';
import { IReservationView } from '../rest/api';
import { failureText } from '../rest/failureText';
import { sessionFieldList } from '../sessions/sessionForm';
import { Alert, EmptyState, Link, TextButton } from '../ui/elements';
import { Field } from '../ui/field';
import { FormFields } from '../ui/fields';
import { FoldedFields } from '../ui/foldedFields';
import { TRIMMED } from '../ui/typed';
import { useStore } from '../ui/useStore';
import {
  advancedFields,
  huntFieldList,
  placeFields,
  unattendedChoices,
  unattendedFields
} from './createFields';
import { CreateForm } from './createForm';
import { FormPage } from './formPage';
import { TypePicker } from './typePicker';

export function CreatePage() {
  const actions = useActions();
  const { forms, model } = actions;
  const form = useStore(forms.of(CreateForm));
  const versions = useId();
  const first = useRef<HTMLInputElement>(null);
  const grants = useStore(forms.of(GrantsForm)).list.value;
  const loaded = form.catalog !== null;
  const billed = form.catalog?.emulated === false;
  useEffect(() => {
    if (billed) {
      void forms.of(GrantsForm).list.load();
    }
  }, [billed]);
  useEffect(() => first.current?.select(), [loaded]);

  if (!form.catalog) {
    const problem = model.catalogError && failureText(model.catalogError);
    return problem ? (
      <EmptyState
        title={trans.__('TPU types could not be loaded')}
        text={problem.message}
        hint={problem.hint}
      >
        <TextButton onClick={() => void actions.openCreateForm()}>
          {trans.__('Try Again')}
        </TextButton>
      </EmptyState>
    ) : (
      <EmptyState busy title={trans.__('Loading TPU types…')} />
    );
  }

  const { fields, type } = form;
  const nameProblem = form.nameProblem();
  const grant = coveringGrant(grants ?? [], type, {
    zone: fields.zone,
    tier: fields.tier,
    project: form.catalog.project
  });
  return (
    <FormPage
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
      {fields.tier === 'reserved' && <ReservationField />}
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
            <TextButton onClick={() => void actions.openPage('grants')}>
              {trans.__('Grants…')}
            </TextButton>
          </>
        )}
      </p>
      <FormFields form={form} fields={[idleField(fields, form.deletes)]} />
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
      <FoldedFields
        form={form}
        part="form#unattended"
        label={trans.__('Run a command, stop automatically')}
        fields={unattendedFields(form)}
        chosen={unattendedChoices(form)}
      />
      {form.offersSessions && (
        <FormFields
          form={form}
          fields={sessionFieldList(fields, form.losesDisk)}
        />
      )}
      <datalist id={versions}>
        {form.catalog.versions.map(version => (
          <option key={version} value={version} />
        ))}
      </datalist>
      <FoldedFields
        form={form}
        part="form#advanced"
        label={trans.__('Advanced')}
        fields={advancedFields(form, versions)}
      />
    </FormPage>
  );
}

/** Which reservation is used; those that can be are offered, with their dates. */
function ReservationField() {
  const { forms, model } = useActions();
  const form = forms.of(CreateForm);
  const [reservations, setReservations] = useState<IReservationView[]>([]);
  const id = useId();
  useEffect(() => {
    // Who may not list them can type a name.
    model.client.reservations
      .list()
      .then(setReservations, () => setReservations([]));
  }, [model]);
  const day = (time: string) => new Date(time).toLocaleDateString(language);
  const coming = reservations
    .filter(one => one.future && !one.use)
    .map(one => trans.__('%1 from %2', one.name, day(one.start)));
  return (
    <>
      <FormFields
        form={form}
        fields={[
          {
            name: 'reservation',
            label: trans.__('Reservation'),
            help: coming.length
              ? trans.__('Still to come: %1', coming.join(', '))
              : trans.__('Required by Compute Engine'),
            typed: TRIMMED,
            list: id
          }
        ]}
      />
      <datalist id={id}>
        {reservations
          .filter(one => one.use)
          .map(one => (
            <option key={`${one.zone}/${one.use}`} value={one.use}>
              {facts(one.zone, one.type, one.end && day(one.end))}
            </option>
          ))}
      </datalist>
    </>
  );
}

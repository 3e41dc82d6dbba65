// The fields of the form for a new TPU that make it a hunt.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { IFields } from '../lifecycle/createForm';
import { tierLabel } from '../panel/tpuLabels';
import { Check, Field } from '../ui/field';
import { trans } from '../ui/translation';
import { IHuntFields, isQueued } from './huntForm';

/** Hours after which no attempt begins. */
const HOURS = ['1', '8', '24', '72'];

export function HuntFields(props: { actions: Actions }): JSX.Element {
  const { createForm: form } = props.actions;
  const { fields } = form;
  return (
    <>
      <Check
        checked={fields.hunt}
        label={trans.__('Try until one is available')}
        help={trans.__(
          'Starts a hunt. It continues after a restart of Jupyter. You can stop it'
        )}
        onChange={on => form.set('hunt', on)}
      />
      {fields.hunt && (
        <div className="jp-tpu-Form-advanced">
          <Choices
            legend={trans.__('Other zones to try')}
            field="otherZones"
            actions={props.actions}
            choices={form.otherZones.map(name => ({ name, label: name }))}
          />
          <Choices
            legend={trans.__('Other types to try')}
            field="otherTypes"
            actions={props.actions}
            choices={form.otherTypes.map(({ name, meaning }) => ({
              name,
              label: name,
              help: meaning
            }))}
          />
          <Choices
            legend={trans.__('Other tiers to try')}
            field="otherTiers"
            actions={props.actions}
            choices={form.otherTiers.map(name => ({
              name,
              label: tierLabel(name)
            }))}
          />
          {form.preemptible && (
            <Check
              checked={fields.again}
              label={trans.__('Hunt again each time it is preempted')}
              help={trans.__(
                'Each new TPU is billed until it is deleted. To create no more TPUs, stop the hunt.'
              )}
              onChange={on => form.set('again', on)}
            />
          )}
          {!fields.again && (
            <Field label={trans.__('Stop trying after')}>
              {attributes => (
                <HTMLSelect
                  {...attributes}
                  value={fields.hours}
                  onChange={event => form.set('hours', event.target.value)}
                >
                  <option value="">{trans.__('No limit')}</option>
                  {HOURS.map(hours => (
                    <option key={hours} value={hours}>
                      {trans._n('%1 hour', '%1 hours', Number(hours))}
                    </option>
                  ))}
                </HTMLSelect>
              )}
            </Field>
          )}
          <Check
            checked={isQueued(fields)}
            label={trans.__('Wait in Google’s queue')}
            help={trans.__('Continues while this computer is off')}
            onChange={on => form.set('queued', on)}
          />
          {isQueued(fields) && (
            <Check
              checked={fields.direct}
              label={trans.__('Also try without the queue')}
              help={trans.__('Takes turns with the queue, while Jupyter runs')}
              onChange={on => form.set('direct', on)}
            />
          )}
        </div>
      )}
    </>
  );
}

type ListField = keyof IHuntFields &
  ('otherZones' | 'otherTypes' | 'otherTiers');

/** Choices to tick; nothing if there are none. */
function Choices<N extends string>(props: {
  legend: string;
  field: ListField;
  actions: Actions;
  choices: { name: N; label: string; help?: string }[];
}): JSX.Element | null {
  const { actions, choices, field, legend } = props;
  const form = actions.createForm;
  const ticked = form.fields[field] as string[];
  const tick = (name: string, on: boolean) =>
    form.set(
      field,
      (on
        ? [...ticked, name]
        : ticked.filter(one => one !== name)) as IFields[ListField]
    );
  return choices.length === 0 ? null : (
    <fieldset>
      <legend>{legend}</legend>
      {choices.map(({ help, label, name }) => (
        <Check
          key={name}
          checked={ticked.includes(name)}
          label={label}
          help={help}
          onChange={on => tick(name, on)}
        />
      ))}
    </fieldset>
  );
}

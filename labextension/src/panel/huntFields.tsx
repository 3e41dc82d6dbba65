// The fields of the form for a new TPU that make it a hunt.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { IFields } from '../forms/createForm';
import { IHuntFields, isQueued } from '../forms/hunt';
import { tierLabel } from '../labels/tpus';
import { Field } from './field';

/** Hours after which no attempt begins. */
const HOURS = ['1', '8', '24', '72'];

export function HuntFields(props: { actions: Actions }): JSX.Element {
  const { trans, createForm: form } = props.actions;
  const { fields } = form;
  return (
    <>
      <label className="jp-tpu-Check">
        <input
          type="checkbox"
          checked={fields.hunt}
          onChange={event => form.set('hunt', event.target.checked)}
        />
        <span>
          {trans.__('Try again until there is one')}
          <small>
            {trans.__(
              'A hunt: goes on after a restart of Jupyter; you can stop it'
            )}
          </small>
        </span>
      </label>
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
              label: tierLabel(name, trans)
            }))}
          />
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
          <label className="jp-tpu-Check">
            <input
              type="checkbox"
              checked={isQueued(fields)}
              onChange={event => form.set('queued', event.target.checked)}
            />
            <span>
              {trans.__("Wait in Google's queue")}
              <small>{trans.__('Goes on while this computer is off')}</small>
            </span>
          </label>
          {isQueued(fields) && (
            <label className="jp-tpu-Check">
              <input
                type="checkbox"
                checked={fields.direct}
                onChange={event => form.set('direct', event.target.checked)}
              />
              <span>
                {trans.__('Also try without the queue')}
                <small>{trans.__('In turn, while Jupyter runs')}</small>
              </span>
            </label>
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
        <label key={name} className="jp-tpu-Check">
          <input
            type="checkbox"
            checked={ticked.includes(name)}
            onChange={event => tick(name, event.target.checked)}
          />
          <span>
            {label}
            {help && <small>{help}</small>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

// The fields for when a TPU stops or deletes itself: of a dialog, and of the form for a new TPU.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { Field, TextField } from '../ui/field';
import { trans } from '../ui/translation';
import { IGuardFields } from './guardForm';
import { durationLabel, IDLE_CHOICES, withChosen } from './guardLabels';

/** A form that has them. */
interface IGuardForm {
  fields: IGuardFields;
  set<K extends keyof IGuardFields>(field: K, value: IGuardFields[K]): void;
  problemOf(field: keyof IGuardFields): string;
}

/** deletes: whether the TPU can't be stopped. */
export function GuardFields(props: {
  form: IGuardForm;
  deletes: boolean;
}): JSX.Element {
  const { deletes, form } = props;
  const { action, cost, idle, until } = form.fields;
  return (
    <>
      <Field
        label={trans.__('When it is idle')}
        help={trans.__('No running cell, job, terminal or program.')}
        problem={form.problemOf('idle')}
      >
        {attributes => (
          <HTMLSelect
            {...attributes}
            value={idle}
            onChange={event => form.set('idle', event.target.value)}
          >
            <option value="">{trans.__('Keep it running')}</option>
            {withChosen(IDLE_CHOICES, idle).map(seconds => (
              <option key={seconds} value={seconds}>
                {trans.__('After %1', durationLabel(seconds))}
              </option>
            ))}
          </HTMLSelect>
        )}
      </Field>
      <TextField
        label={trans.__('Cost limit in US dollars')}
        help={trans.__('Approximate, since its creation. Empty: no limit.')}
        problem={form.problemOf('cost')}
        type="number"
        min="0.01"
        step="any"
        value={cost}
        onChange={value => form.set('cost', value)}
      />
      <TextField
        label={trans.__('Time limit')}
        help={trans.__('In your browser’s time zone. Empty: no limit.')}
        problem={form.problemOf('until')}
        type="datetime-local"
        value={until}
        onChange={value => form.set('until', value)}
      />
      <Field
        label={trans.__('What happens then')}
        help={
          deletes
            ? trans.__(
                'A Spot TPU or a TPU with several hosts can’t be stopped.'
              )
            : trans.__('A stopped TPU keeps its disk.')
        }
        problem={form.problemOf('action')}
      >
        {attributes => (
          <HTMLSelect
            {...attributes}
            disabled={deletes}
            value={deletes ? 'delete' : action}
            onChange={event =>
              form.set('action', event.target.value as IGuardFields['action'])
            }
          >
            <option value="stop">{trans.__('It is stopped')}</option>
            <option value="delete">
              {trans.__('It is deleted with its disk')}
            </option>
          </HTMLSelect>
        )}
      </Field>
    </>
  );
}

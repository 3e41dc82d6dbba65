// The fields for what hosts get beside Python.

import React from 'react';

import { Actions } from '../actions/actions';
import { Check, TextArea, TextField } from '../ui/field';
import { PackagesField } from '../ui/formPage';
import { trans } from '../ui/translation';
import { ISetupFields } from './setupForm';

/** A form that has them. */
interface ISetupForm {
  fields: ISetupFields;
  set<K extends keyof ISetupFields>(field: K, value: ISetupFields[K]): void;
  problemOf(field: keyof ISetupFields): string;
}

export function SetupFields(props: {
  actions: Actions;
  form: ISetupForm;
  disabled?: boolean;
}): JSX.Element {
  const { actions, disabled, form } = props;
  const { fields } = form;
  return (
    <>
      <PackagesField
        actions={actions}
        label={trans.__('apt packages')}
        help={trans.__('For example ffmpeg. Installed on each host')}
        problem={form.problemOf('apt')}
        rows={2}
        disabled={disabled}
        value={fields.apt}
        onChange={value => form.set('apt', value)}
      />
      <TextField
        label={trans.__('Time zone')}
        help={trans.__('For example Europe/Berlin')}
        problem={form.problemOf('timezone')}
        disabled={disabled}
        value={fields.timezone}
        onChange={value => form.set('timezone', value)}
      />
      <TextArea
        label={trans.__('Setup script')}
        help={trans.__(
          'Runs once on each host, as the login user, who can use sudo'
        )}
        problem={form.problemOf('script')}
        rows={4}
        disabled={disabled}
        value={fields.script}
        onChange={value => form.set('script', value)}
      />
      <Check
        disabled={disabled}
        checked={fields.ohMyZsh}
        label={trans.__('oh-my-zsh')}
        help={trans.__('Makes zsh the login shell')}
        onChange={on => form.set('ohMyZsh', on)}
      />
    </>
  );
}

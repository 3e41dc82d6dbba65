// The form that connects a TPU with an environment of the user's choice.

import React, { useEffect, useId, useRef, useState } from 'react';

import { Actions } from '../actions/actions';
import { Disclosure } from '../ui/elements';
import { TextArea, TextField } from '../ui/field';
import { FormPage, PackagesField, useUnfolding } from '../ui/formPage';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { environmentRule, IConnectFields } from './connectForm';
import { SetupFields } from './setupFields';
import { hasSetup } from './setupForm';

export function ConnectPage({ actions }: { actions: Actions }): JSX.Element {
  const form = useStore(actions.connectForm);
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.select(), []);
  const { fields } = form;
  const more = useId();
  const [open, setOpen] = useState(hasSetup(form.fields));
  useUnfolding(form, ['apt', 'timezone', 'script'], () => setOpen(true));
  const set = (field: keyof IConnectFields) => (value: string) =>
    form.set(field, value);
  const nameProblem = form.nameProblem();
  const { environment, template } = form;
  return (
    <FormPage
      actions={actions}
      form={form}
      label={
        environment ? trans.__('Environment') : trans.__('New environment')
      }
      first={first}
      nameProblem={nameProblem}
      send={
        environment?.state === 'ready' ? trans.__('Change') : trans.__('Create')
      }
    >
      <p>
        {trans.__(
          'Installs Python and JAX on all hosts of %1, and adds a kernel.',
          form.tpu?.name ?? ''
        )}{' '}
        {template &&
          trans.__('It starts with the packages of %1.', template.name)}
      </p>
      {!environment && (
        <TextField
          label={trans.__('Name')}
          help={environmentRule()}
          problem={nameProblem || form.problemOf('environment')}
          input={first}
          autoComplete="off"
          value={fields.environment}
          onChange={set('environment')}
        />
      )}
      <TextField
        label={trans.__('Python version')}
        help={trans.__(
          'For example 3.12. Default: the newest supported version'
        )}
        problem={form.problemOf('python')}
        value={fields.python}
        onChange={set('python')}
      />
      <PackagesField
        actions={actions}
        rows={4}
        problem={form.problemOf('packages')}
        autoFocus={!!environment}
        value={fields.packages}
        onChange={set('packages')}
      />
      {form.hasRequirements && (
        <TextArea
          label={trans.__('Requirements file')}
          problem={form.problemOf('requirements')}
          rows={4}
          value={fields.requirements}
          onChange={set('requirements')}
        />
      )}
      <Disclosure open={open} controls={more} onToggle={() => setOpen(!open)}>
        {trans.__('More')}
      </Disclosure>
      {open && (
        <div id={more} className="jp-tpu-Form-advanced">
          <SetupFields actions={actions} form={form} />
        </div>
      )}
    </FormPage>
  );
}

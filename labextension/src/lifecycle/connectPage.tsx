// The form that connects a TPU with an environment of the user's choice.

import React, { useEffect, useId, useRef, useState } from 'react';

import { Actions } from '../actions/actions';
import { Disclosure } from '../ui/elements';
import { FormFields } from '../ui/fields';
import { FormPage, packagesField, useUnfolding } from '../ui/formPage';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { environmentRule } from './connectForm';
import { setupFieldList } from './fieldLists';
import { hasSetup } from './setupForm';

export function ConnectPage({ actions }: { actions: Actions }): JSX.Element {
  const form = useStore(actions.connectForm);
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.select(), []);
  const more = useId();
  const [open, setOpen] = useState(hasSetup(form.fields));
  useUnfolding(form, ['apt', 'timezone', 'script'], () => setOpen(true));
  const nameProblem = form.nameProblem();
  const { environment, template } = form;
  return (
    <FormPage
      actions={actions}
      form={form}
      label={
        environment ? trans.__('Environment') : trans.__('New Environment')
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
      <FormFields
        form={form}
        fields={[
          !environment && {
            name: 'environment',
            label: trans.__('Name'),
            help: environmentRule(),
            problem: nameProblem,
            input: first,
            autoComplete: 'off'
          },
          {
            name: 'python',
            label: trans.__('Python version'),
            help: trans.__(
              'For example 3.12. Default: the newest supported version'
            )
          },
          packagesField({ rows: 4, autoFocus: !!environment }),
          form.hasRequirements && {
            name: 'requirements',
            label: trans.__('Requirements file'),
            kind: 'area',
            rows: 4
          }
        ]}
      />
      <Disclosure open={open} controls={more} onToggle={() => setOpen(!open)}>
        {trans.__('More')}
      </Disclosure>
      {open && (
        <div id={more} className="jp-tpu-Form-advanced">
          <FormFields form={form} fields={setupFieldList()} />
        </div>
      )}
    </FormPage>
  );
}

// The form that connects a TPU with an environment of the user's choice.

import React, { useEffect, useRef } from 'react';

import { useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { FormFields } from '../ui/fields';
import { FoldedFields } from '../ui/foldedFields';
import { given, OPTIONAL } from '../ui/typed';
import { useStore } from '../ui/useStore';
import { ConnectForm, environmentRule } from './connectForm';
import { FormPage, packagesField } from './formPage';
import { NO_SETUP, setupFieldList } from './hostOptions';

const MORE = 'connect#more';

export function ConnectPage() {
  const { forms, view } = useActions();
  const form = useStore(forms.of(ConnectForm));
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.select(), []);
  useEffect(() => view.fold(MORE, !given(form.fields, NO_SETUP)), []);
  const nameProblem = form.nameProblem();
  const { environment, template } = form;
  return (
    <FormPage
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
          'Installs Python and JAX or PyTorch on all hosts of %1, and adds a kernel.',
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
          // What uses the chips of an environment can't be changed.
          !environment && {
            name: 'framework',
            label: trans.__('Framework'),
            help: trans.__(
              'PyTorch is TorchTPU with PyTorch for the CPU. Both can be on one TPU.'
            ),
            kind: 'select',
            choices: [
              ['jax', 'JAX'],
              ['torch', 'PyTorch']
            ]
          },
          {
            name: 'python',
            label: trans.__('Python version'),
            help: trans.__(
              'For example 3.12. Default: the newest supported version'
            ),
            typed: OPTIONAL
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
      <FoldedFields
        form={form}
        part={MORE}
        label={trans.__('More')}
        fields={setupFieldList()}
      />
    </FormPage>
  );
}

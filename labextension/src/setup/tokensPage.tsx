// The tokens of this computer that TPUs get: a list of names, and a form that adds some.

import React from 'react';

import { useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { TextWithCode } from '../ui/elements';
import { ListPage } from '../ui/listed';
import { Row } from '../ui/rows';
import { WORDS } from '../ui/typed';
import { TokensForm } from './tokensForm';

/** A name, so not translated. */
const EXAMPLE = 'HF_TOKEN';

export function TokensPage() {
  const form = useActions().forms.of(TokensForm);
  return (
    <ListPage
      form={form}
      title={trans.__('Tokens')}
      about={
        <p>
          {trans.__(
            'Kernels, commands and jobs on TPUs get these environment variables of the computer that runs Jupyter the next time they start. Only names are stored.'
          )}
        </p>
      }
      loading={trans.__('Loading tokens…')}
      none={trans.__('No token is passed to TPUs.')}
      row={({ hint, name, source }) => (
        <Row
          key={name}
          name={name}
          state={{ label: source ? '' : trans.__('not found'), tone: 'bad' }}
          remove={{
            label: trans.__('Remove %1', name),
            disabled: form.submitting,
            run: () => form.remove(name)
          }}
          more={
            source === 'environment' ? (
              trans.__('from an environment variable of the Jupyter server')
            ) : source ? (
              trans.__('from %1', source)
            ) : (
              <TextWithCode text={hint} />
            )
          }
        />
      )}
      fields={[
        {
          name: 'names',
          label: trans.__('Pass a token'),
          help: trans.__(
            'The name of an environment variable, without its value'
          ),
          typed: WORDS,
          placeholder: EXAMPLE,
          autoComplete: 'off'
        }
      ]}
      add={trans.__('Pass')}
    />
  );
}

// The tokens of this computer that TPUs get: a list of names, and a form that adds some.

import { Button, closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { IToken } from '../rest/api';
import { Alert, IconButton, TextWithCode } from '../ui/elements';
import { failureText } from '../ui/failures';
import { TextField } from '../ui/field';
import { Listed, Rows } from '../ui/listed';
import { useStore } from '../ui/store';
import { Row } from '../ui/rows';
import { trans } from '../ui/translation';

/** A name, so not translated. */
const EXAMPLE = 'HF_TOKEN';

export function TokensPage({ actions }: { actions: Actions }): JSX.Element {
  const form = useStore(actions.tokensForm);
  return (
    <form
      className="jp-tpu-Form"
      aria-label={trans.__('Tokens')}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        void form.submit();
      }}
    >
      <p>
        {trans.__(
          'Kernels, commands and jobs on TPUs get these environment variables of the computer that runs Jupyter the next time they start. Only names are stored.'
        )}
      </p>
      <TextField
        label={trans.__('Pass a token')}
        help={trans.__(
          'The name of an environment variable, without its value'
        )}
        placeholder={EXAMPLE}
        autoComplete="off"
        value={form.fields.name}
        onChange={value => form.set('name', value)}
      />
      <div className="jp-tpu-Buttons">
        <Button
          className="jp-tpu-Button jp-mod-main"
          type="submit"
          disabled={form.submitting || !form.fields.name.trim()}
        >
          {trans.__('Pass')}
        </Button>
      </div>
      {form.failure && <Alert {...failureText(form.failure)} />}
      <Listed
        items={form.items}
        failure={form.loadFailure}
        loading={trans.__('Loading tokens…')}
        none={trans.__('No token is passed to TPUs.')}
        onRetry={() => form.load()}
      >
        {tokens => (
          <Rows title={trans.__('Passed')} count={tokens.length}>
            {tokens.map(token => (
              <Token key={token.name} token={token} actions={actions} />
            ))}
          </Rows>
        )}
      </Listed>
    </form>
  );
}

function Token(props: { token: IToken; actions: Actions }): JSX.Element {
  const {
    actions: { tokensForm: form },
    token: { hint, name, source }
  } = props;
  return (
    <Row
      name={name}
      title={name}
      state={{ label: source ? '' : trans.__('not found'), tone: 'bad' }}
      buttons={
        <IconButton
          icon={closeIcon}
          label={trans.__('Remove %1', name)}
          disabled={form.submitting}
          onClick={() => void form.remove(name)}
        />
      }
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
  );
}

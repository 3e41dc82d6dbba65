// The form that connects a TPU with an environment of the user's choice.

import { Button } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';

import { Actions } from '../actions';
import { IConnectFields } from '../connectForm';
import { useStore } from '../store';
import { failureWords } from '../words';
import { Field } from './field';
import { Trouble } from './parts';

export function ConnectPage(props: { actions: Actions }): JSX.Element {
  const { actions } = props;
  const { trans, view } = actions;
  const form = useStore(actions.connectForm);
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.select(), []);
  const { fields } = form;
  const set =
    (field: keyof IConnectFields) =>
    (event: React.ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) =>
      form.set(field, event.target.value);
  const nameProblem = form.nameProblem(trans);
  return (
    <form
      className="jp-tpu-Form"
      aria-label={trans.__('New environment')}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (nameProblem) {
          first.current?.focus();
        } else {
          void actions.submit(form);
        }
      }}
    >
      <p>
        {trans.__(
          'Python with JAX on all hosts of %1, and a kernel for it in Jupyter.',
          form.tpu?.name ?? ''
        )}
      </p>
      <Field label={trans.__('Name')} problem={nameProblem}>
        {attributes => (
          <input
            {...attributes}
            ref={first}
            className="jp-mod-styled"
            spellCheck={false}
            autoComplete="off"
            value={fields.environment}
            onChange={set('environment')}
          />
        )}
      </Field>
      <Field
        label={trans.__('Python version')}
        help={trans.__('Such as 3.12; the newest that fits if empty')}
      >
        {attributes => (
          <input
            {...attributes}
            className="jp-mod-styled"
            value={fields.python}
            onChange={set('python')}
          />
        )}
      </Field>
      <Field
        label={trans.__('Python packages')}
        help={trans.__('Besides JAX; one on each line')}
      >
        {attributes => (
          <textarea
            {...attributes}
            className="jp-mod-styled"
            rows={4}
            spellCheck={false}
            value={fields.packages}
            onChange={set('packages')}
          />
        )}
      </Field>
      {form.failure && <Trouble {...failureWords(form.failure, trans)} />}
      <div className="jp-tpu-Buttons">
        <Button
          className="jp-tpu-Button jp-mod-main"
          type="submit"
          disabled={form.submitting}
        >
          {trans.__('Connect')}
        </Button>
        <Button
          className="jp-tpu-Button"
          type="button"
          onClick={() => view.show('list')}
        >
          {trans.__('Cancel')}
        </Button>
      </div>
    </form>
  );
}

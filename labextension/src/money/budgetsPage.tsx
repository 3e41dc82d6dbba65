// What coding agents and people may spend: a list of budgets, and a form that sets one.

import { Button, closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { IBudgetUse, ISpending } from '../rest/api';
import { Alert, IconButton, StateLabel } from '../ui/elements';
import { failureText } from '../ui/failures';
import { reportHalfTyped, TextField } from '../ui/field';
import { Listed, Rows } from '../ui/listed';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { IBudgetFields } from './budgetsForm';

/** Names, so not translated. */
const EXAMPLES = { types: 'v5e', zones: 'us-west4-a' };

export function BudgetsPage(props: { actions: Actions }): JSX.Element {
  const { actions } = props;
  const form = useStore(actions.budgetsForm);
  const { fields, overview } = form;
  const input = (field: keyof IBudgetFields) => ({
    value: fields[field],
    autoComplete: 'off',
    onChange: (value: string) => form.set(field, value)
  });
  const spending = overview?.spending ?? [];
  return (
    <form
      className="jp-tpu-Form"
      aria-label={trans.__('Budgets')}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!reportHalfTyped(event.currentTarget)) {
          void form.submit();
        }
      }}
    >
      <p>
        {trans.__(
          'What coding agents may spend without asking you. Each TPU of an agent is deleted at a limit of time and cost. Outside of its budget, an agent has to ask.'
        )}
      </p>
      {overview?.emulated && (
        <p>
          {trans.__(
            'Emulated TPUs cost nothing. Here they count with the price of real ones.'
          )}
        </p>
      )}
      <Listed
        items={form.items}
        failure={form.loadFailure}
        loading={trans.__('Loading budgets…')}
        none={trans.__('There are no budgets.')}
        onRetry={() => form.load()}
      >
        {items => (
          <Rows title={trans.__('Budgets')}>
            {items.map(use => (
              <Budget key={use.budget.who} use={use} actions={actions} />
            ))}
          </Rows>
        )}
      </Listed>
      <TextField
        label={trans.__('Who')}
        help={trans.__('agent, or a person as the owner label of TPUs')}
        {...input('who')}
      />
      <TextField
        label={trans.__('USD a day')}
        type="number"
        min={0}
        {...input('day')}
      />
      <TextField
        label={trans.__('USD in total')}
        type="number"
        min={0}
        {...input('total')}
      />
      <TextField
        label={trans.__('Types')}
        help={trans.__('Leave empty for all')}
        placeholder={EXAMPLES.types}
        {...input('types')}
      />
      <TextField
        label={trans.__('Zones')}
        help={trans.__('Leave empty for all')}
        placeholder={EXAMPLES.zones}
        {...input('zones')}
      />
      <TextField
        label={trans.__('Last day')}
        help={trans.__('Leave empty if it has no end')}
        type="date"
        {...input('until')}
      />
      {form.failure && <Alert {...failureText(form.failure)} />}
      <div className="jp-tpu-Buttons">
        <Button
          className="jp-tpu-Button jp-mod-main"
          type="submit"
          disabled={form.submitting || !form.complete}
        >
          {trans.__('Set Budget')}
        </Button>
      </div>
      {spending.length > 0 && (
        <Rows title={trans.__('Spent on')}>
          {spending.map(line => (
            <Line key={line.id} line={line} actions={actions} />
          ))}
        </Rows>
      )}
    </form>
  );
}

function Budget(props: { use: IBudgetUse; actions: Actions }): JSX.Element {
  const {
    actions: { budgetsForm: form },
    use: { budget, committed, expired, text }
  } = props;
  const scope = [...(budget.types ?? []), ...(budget.zones ?? [])].join(' · ');
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={budget.who}>
        {budget.who}
      </span>
      {expired && <StateLabel tone="bad">{trans.__('expired')}</StateLabel>}
      <IconButton
        icon={closeIcon}
        label={trans.__('Remove the budget of %1', budget.who)}
        disabled={form.submitting}
        onClick={() => void form.remove(budget.who)}
      />
      <span className="jp-tpu-Row-more">
        {text}
        {committed > 0 &&
          ` · ${trans.__('running TPUs may cost $%1 more', committed.toFixed(2))}`}
        <br />
        {scope}
        {budget.until && ` · ${trans.__('until %1', budget.until)}`}
      </span>
    </li>
  );
}

function Line(props: { line: ISpending; actions: Actions }): JSX.Element {
  const { line } = props;
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={line.tpu}>
        {line.tpu}
      </span>
      <span className="jp-tpu-Row-more">
        {[line.who, line.type, line.zone].join(' · ')}
        <br />
        {trans.__(
          '$%1 of at most $%2',
          line.usd.toFixed(2),
          line.most.toFixed(2)
        )}
      </span>
    </li>
  );
}

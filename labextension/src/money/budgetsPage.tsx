// What coding agents and people may spend: a list of budgets, and a form that sets one.

import React from 'react';

import { useActions } from '../actions/useActions';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { IBudgetUse } from '../rest/api';
import { ListPage, Rows } from '../ui/listed';
import { Row } from '../ui/rows';
import { NUMBER, TRIMMED } from '../ui/typed';
import { useStore } from '../ui/useStore';
import { BudgetsForm } from './budgetsForm';
import { limitFields } from './limitFields';

export function BudgetsPage() {
  const form = useStore(useActions().forms.of(BudgetsForm));
  const { emulated, spending = [] } = form.overview ?? {};
  return (
    <ListPage
      form={form}
      title={trans.__('Budgets')}
      about={
        <>
          <p>
            {trans.__(
              'What coding agents may spend without asking you. Each TPU of an agent is deleted at a limit of time and cost. Outside of its budget, an agent has to ask.'
            )}
          </p>
          {emulated && (
            <p>
              {trans.__(
                'Emulated TPUs cost nothing. Here they count with the price of real ones.'
              )}
            </p>
          )}
        </>
      }
      loading={trans.__('Loading budgets…')}
      none={trans.__('There are no budgets.')}
      row={use => <Budget key={use.budget.who} use={use} />}
      fields={[
        {
          name: 'who',
          label: trans.__('Who'),
          help: trans.__('agent, or a person as the owner label of TPUs'),
          typed: TRIMMED,
          autoComplete: 'off'
        },
        {
          name: 'day',
          label: trans.__('USD a day'),
          kind: 'number',
          typed: NUMBER,
          min: 0
        },
        {
          name: 'total',
          label: trans.__('USD in total'),
          kind: 'number',
          typed: NUMBER,
          min: 0
        },
        ...limitFields(trans.__('Leave empty for all'))
      ]}
      add={trans.__('Set Budget')}
    >
      {spending.length > 0 && (
        <Rows title={trans.__('Spent on')}>
          {spending.map(({ id, most, tpu, type, usd, who, zone }) => (
            <Row
              key={id}
              name={tpu}
              more={
                <>
                  {facts(who, type, zone)}
                  <br />
                  {trans.__(
                    '$%1 of at most $%2',
                    usd.toFixed(2),
                    most.toFixed(2)
                  )}
                </>
              }
            />
          ))}
        </Rows>
      )}
    </ListPage>
  );
}

function Budget({ use }: { use: IBudgetUse }) {
  const form = useActions().forms.of(BudgetsForm);
  const { budget, committed, expired, text } = use;
  const more = trans.__('running TPUs may cost $%1 more', committed.toFixed(2));
  return (
    <Row
      name={budget.who}
      state={{ label: expired ? trans.__('expired') : '', tone: 'bad' }}
      remove={{
        label: trans.__('Remove the budget of %1', budget.who),
        disabled: form.submitting,
        run: () => form.remove(budget.who)
      }}
      more={
        <>
          {facts(text, committed > 0 && more)}
          <br />
          {facts(
            ...(budget.types ?? []),
            ...(budget.zones ?? []),
            budget.until && trans.__('until %1', budget.until)
          )}
        </>
      }
    />
  );
}

// What agents have spent today, and what they ask for: a line above the list of TPUs.

import React, { useEffect } from 'react';

import { useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { Alert, Link, TextButton } from '../ui/elements';
import { useStore } from '../ui/useStore';
import { BudgetsForm } from './budgetsForm';

export function BudgetLine() {
  const actions = useActions();
  const budgets = actions.forms.of(BudgetsForm);
  const { overview } = useStore(budgets);
  useEffect(() => void budgets.list.load(), [budgets]);
  if (!overview) {
    return null;
  }
  return (
    <>
      {overview.questions.map(plan => (
        <Alert
          key={plan.id}
          kind="warning"
          message={trans.__(
            'A coding agent asks for %1 (%2): at most $%3',
            plan.name,
            plan.type,
            plan.most.toFixed(2)
          )}
          hint={`${plan.outside} ${plan.guard}`}
        >
          <TextButton onClick={() => void budgets.answer(plan.id, true)}>
            {trans.__('Allow')}
          </TextButton>
          <TextButton onClick={() => void budgets.answer(plan.id, false)}>
            {trans.__('Refuse')}
          </TextButton>
        </Alert>
      ))}
      {overview.budgets.map(({ budget, text }) => (
        <div key={budget.who} className="jp-tpu-Project" title={text}>
          <Link onClick={() => void actions.openPage('budgets')}>
            {budget.who === 'agent'
              ? trans.__('Agents: %1', text)
              : trans.__('%1: %2', budget.who, text)}
          </Link>
        </div>
      ))}
    </>
  );
}

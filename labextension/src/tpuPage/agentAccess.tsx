// Whether coding agents may run code on a TPU, where a person has given them a budget.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { ITPUProps, useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { BudgetsForm } from '../money/budgetsForm';
import { ITPU } from '../rest/api';
import { Link } from '../ui/elements';
import { Terms } from '../ui/listSection';
import { named } from '../ui/named';
import { useStore } from '../ui/useStore';

export function AgentAccess({ tpu }: ITPUProps) {
  const actions = useActions();
  const { overview } = useStore(actions.forms.of(BudgetsForm));
  const allowed = tpu.agents_may_use;
  const isOfAgents = ({ who }: { who: string }) => who === 'agent';
  if (!allowed && !overview?.budgets.some(use => isOfAgents(use.budget))) {
    return null;
  }
  const created = overview?.spending.some(
    line =>
      isOfAgents(line) &&
      line.tpu === tpu.name &&
      line.zone === tpu.zone &&
      line.state !== 'ended'
  );
  const change = (
    <Link
      label={
        allowed
          ? trans.__('Deny coding agents access to %1', tpu.name)
          : trans.__('Let coding agents run code on %1', tpu.name)
      }
      onClick={() => void allowAgents(actions, tpu, !allowed)}
    >
      {allowed ? trans.__('Deny') : trans.__('Allow')}
    </Link>
  );
  const access = (
    <>
      {allowed ? trans.__('May run code here') : trans.__('No access')}{' '}
      {!created && change}
    </>
  );
  return <Terms terms={[[trans.__('Coding agents'), access]]} />;
}

/** Lets coding agents run code on a TPU, or no longer. */
async function allowAgents(
  { model }: IPanelActions,
  tpu: ITPU,
  allowed: boolean
): Promise<void> {
  const title = allowed
    ? trans.__('Let coding agents run code on %1?', tpu.name)
    : trans.__('Deny coding agents access to %1?', tpu.name);
  const accept = allowed ? trans.__('Allow') : trans.__('Deny');
  await named(tpu, title, accept, confirm_name =>
    model.send(tpu, async client => {
      await client.budgets.allow(tpu, { allowed, confirm_name });
    })
  );
}

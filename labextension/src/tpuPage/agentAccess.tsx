// Whether coding agents may run code on a TPU, where a person has given them a budget.

import React from 'react';

import { ITPUProps } from '../actions/actions';
import { Link } from '../ui/elements';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';

export function AgentAccess({ tpu, actions }: ITPUProps): JSX.Element | null {
  const { overview } = useStore(actions.budgetsForm);
  const allowed = tpu.agents_may_use;
  const isOfAgents = ({ who }: { who: string }) => who === 'agent';
  const budgeted = overview?.budgets.some(use => isOfAgents(use.budget));
  if (!allowed && !budgeted) {
    return null;
  }
  const created = overview?.spending.some(
    line =>
      isOfAgents(line) &&
      line.tpu === tpu.name &&
      line.zone === tpu.zone &&
      line.state !== 'ended'
  );
  return (
    <>
      <dt>{trans.__('Coding agents')}</dt>
      <dd className="jp-mod-wrap">
        {allowed ? trans.__('May run code here') : trans.__('No access')}{' '}
        {!created && (
          <Link
            label={
              allowed
                ? trans.__('Deny coding agents access to %1', tpu.name)
                : trans.__('Let coding agents run code on %1', tpu.name)
            }
            onClick={() => void actions.allowAgents(tpu, !allowed)}
          >
            {allowed ? trans.__('Deny') : trans.__('Allow')}
          </Link>
        )}
      </dd>
    </>
  );
}

// Questions before something costs money.

import React from 'react';

import { trans } from '../language/translation';
import { IHuntCandidate, IQuote, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { Price } from './price';

/** Asks for confirmation to create a TPU that costs money. */
export async function confirmCost(quote: IQuote): Promise<boolean> {
  const { cost, meaning, name, tier, type, zone } = quote;
  return confirm(
    trans.__('Create %1?', name),
    <>
      <p>
        {type} · {zone}
        {meaning && (
          <>
            <br />
            {meaning}
          </>
        )}
      </p>
      <p>
        <Price cost={cost} tier={tier} />
      </p>
      {quote.other_form && <p>{quote.other_form}</p>}
      {quote.api_reason && <p>{quote.api_reason}</p>}
      {quote.uncovered && <p>{quote.uncovered}</p>}
      {quote.warning && <p>{quote.warning}</p>}
      <p>
        {trans.__('You pay while it is ready, used or not.')}{' '}
        {tier === 'spot'
          ? trans.__('Google can preempt it at any time.')
          : tier === 'flex-start'
            ? trans.__('Google deletes it when its run time ends.')
            : quote.hosts > 1
              ? trans.__('Delete it to stop paying.')
              : trans.__('Stop or delete it to stop paying.')}
      </p>
    </>,
    trans.__('Create'),
    { harmless: true }
  );
}

/** Asks for confirmation of the prices of all that a hunt may create, *again* and again. */
export async function confirmHuntCost(
  name: string,
  again: boolean,
  candidates: IHuntCandidate[]
): Promise<boolean> {
  return confirm(
    trans.__('Hunt for %1?', name),
    <>
      <p>{trans.__('The first of these that is available is created:')}</p>
      <ul>
        {candidates.map(one => (
          <li key={`${one.type} ${one.zone} ${one.tier}`}>
            {one.type} · {one.zone}: <Price cost={one.cost} tier={one.tier} />
          </li>
        ))}
      </ul>
      <p>
        {trans.__('You pay while it is ready, used or not.')}{' '}
        {again &&
          trans.__(
            'When it is preempted, another one is created and billed. To create no more TPUs, stop the hunt.'
          )}
      </p>
    </>,
    trans.__('Start Hunt'),
    { harmless: true }
  );
}

/** Asks for confirmation to start a TPU, which is billed from then on. */
export async function confirmStart(tpu: ITPU): Promise<boolean> {
  return confirm(
    trans.__('Start %1?', tpu.name),
    <>
      <p>
        <Price cost={tpu.cost} tier={tpu.tier} />
      </p>
      {tpu.cost.usd_per_hour !== 0 && (
        <p>{trans.__('You pay while it is ready, used or not.')}</p>
      )}
    </>,
    trans.__('Start'),
    { harmless: true }
  );
}

/** Asks for confirmation to keep a TPU that should have been deleted. */
export async function confirmKeep(tpu: ITPU): Promise<boolean> {
  const { cost, name, tier } = tpu;
  return confirm(
    trans.__('Stop trying to delete %1?', name),
    <>
      <p>{trans.__('%1 will not be deleted.', name)}</p>
      {cost.usd_per_hour !== 0 && tpu.state !== 'STOPPED' && (
        <p>
          {trans.__('You keep paying for it:')}{' '}
          <Price cost={cost} tier={tier} />
        </p>
      )}
    </>,
    trans.__('Stop Trying')
  );
}

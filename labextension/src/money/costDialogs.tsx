// Questions before something costs money.

import React from 'react';

import { trans } from '../language/translation';
import { IHuntCandidate, IQuote, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { Price } from './price';
import { createQuestion, huntQuestion, startQuestion } from './questionLabels';

/** Asks for confirmation to create a TPU that costs money. */
export async function confirmCost(quote: IQuote): Promise<boolean> {
  const { cost, meaning, tier, type, zone } = quote;
  const { accept, text, title } = createQuestion(quote);
  return confirm(
    title,
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
      <p>{text}</p>
    </>,
    accept,
    { harmless: true }
  );
}

/** Asks for confirmation of the prices of all that a hunt may create, *again* and again. */
export async function confirmHuntCost(
  name: string,
  again: boolean,
  candidates: IHuntCandidate[]
): Promise<boolean> {
  const { accept, first, text, title } = huntQuestion(name, again);
  return confirm(
    title,
    <>
      <p>{first}</p>
      <ul>
        {candidates.map(one => (
          <li key={`${one.type} ${one.zone} ${one.tier}`}>
            {one.type} · {one.zone}: <Price cost={one.cost} tier={one.tier} />
          </li>
        ))}
      </ul>
      <p>{text}</p>
    </>,
    accept,
    { harmless: true }
  );
}

/** Asks for confirmation to start a TPU, which is billed from then on. */
export async function confirmStart(tpu: ITPU): Promise<boolean> {
  const { accept, text, title } = startQuestion(tpu);
  return confirm(
    title,
    <>
      <p>
        <Price cost={tpu.cost} tier={tpu.tier} />
      </p>
      {text && <p>{text}</p>}
    </>,
    accept,
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

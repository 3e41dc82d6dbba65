// The price of a TPU, and where it comes from.

import React from 'react';

import { trans } from '../language/translation';
import { ICost, ITPU } from '../rest/api';
import { PRICES, priceSource, priceText } from './costLabels';

/** "About $9.60 an hour (us-west4, on demand, list price of …)", or why it costs nothing. */
export function Price({ cost, tier }: { cost: ICost; tier: ITPU['tier'] }) {
  const source = priceSource(cost, tier);
  const text = priceText(cost);
  return (
    <>
      {cost.grant || cost.usd_per_hour === 0 ? text : <strong>{text}</strong>}{' '}
      <a href={PRICES} target="_blank" rel="noreferrer">
        {source ? `(${source})` : trans.__('(Google’s prices)')}
      </a>
    </>
  );
}

// The price of a TPU, and where it comes from.

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ICost, ITPU } from '../rest/api';
import { PRICES, priceSource, priceText } from './costLabels';

/** "About $9.60 an hour (us-west4, on demand, list price of …)", or why it costs nothing. */
export function Price(props: {
  cost: ICost;
  tier: ITPU['tier'];
  trans: TranslationBundle;
}): JSX.Element {
  const { cost, tier, trans } = props;
  const source = priceSource(cost, tier, trans);
  const text = priceText(cost, trans);
  return (
    <>
      {cost.grant || cost.usd_per_hour === 0 ? text : <strong>{text}</strong>}{' '}
      <a href={PRICES} target="_blank" rel="noreferrer">
        {source ? `(${source})` : trans.__('(Google’s prices)')}
      </a>
    </>
  );
}

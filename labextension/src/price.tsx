// The price of a TPU, and where it comes from.

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ICost, ITPU } from './api';
import { capitalized, hourlyCost, PRICES, priceSource } from './labels/costs';

/** "About $9.60 an hour (us-west4, on demand, list price of …)", or why it costs nothing. */
export function Price(props: {
  cost: ICost;
  tier: ITPU['tier'];
  trans: TranslationBundle;
}): JSX.Element {
  const { cost, tier, trans } = props;
  const hourly = hourlyCost(cost, trans);
  const source = priceSource(cost, tier, trans);
  return (
    <>
      {cost.grant ? (
        <>
          {trans.__(
            'In the grant %1: $0.00 an hour plus network traffic. Otherwise %2',
            cost.grant,
            hourly
          )}{' '}
        </>
      ) : cost.usd_per_hour === 0 ? (
        <>{trans.__('Costs nothing. A real one: %1', hourly)} </>
      ) : (
        <strong>{capitalized(hourly)} </strong>
      )}
      <a href={PRICES} target="_blank" rel="noreferrer">
        {source ? `(${source})` : trans.__('(Google’s prices)')}
      </a>
    </>
  );
}

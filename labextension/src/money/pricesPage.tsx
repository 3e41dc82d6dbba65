// What an hour of one chip costs, by generation and region, and when that was the price.

import React from 'react';

import { useActions } from '../actions/useActions';
import { facts } from '../language/text';
import { clock, trans, usd } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { IChipPrice, ITPU } from '../rest/api';
import { TextButton } from '../ui/elements';
import { Listed, PanelForm, Rows } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { PRICES } from './costLabels';
import { PriceList } from './priceList';

export function PricesPage() {
  const list = useStore(useActions().forms.of(PriceList));
  const { loading, value } = list;
  return (
    <PanelForm label={trans.__('Prices')} onSubmit={() => list.update()}>
      <p>
        {trans.__(
          'Google’s list prices of one chip for an hour: estimates, your bill may differ. A TPU is billed while it is READY, used or not.'
        )}{' '}
        <a href={PRICES} target="_blank" rel="noreferrer">
          {trans.__('(Google’s prices)')}
        </a>
      </p>
      <div className="jp-tpu-Buttons">
        <TextButton type="submit" disabled={loading}>
          {trans.__('Update From Google')}
        </TextButton>
      </div>
      <Listed
        list={list}
        items={value && value.prices}
        loading={trans.__('Loading prices…')}
      >
        {prices => (
          <>
            <p role="status">
              {value?.read
                ? trans.__('Read from Google: %1', clock(value.read))
                : trans.__(
                    'Not read from Google yet. Each price has its date.'
                  )}
            </p>
            {generations(prices).map(name => (
              <Generation
                key={name}
                name={name}
                prices={prices.filter(price => price.name === name)}
              />
            ))}
          </>
        )}
      </Listed>
    </PanelForm>
  );
}

/** The newest first. */
function generations(prices: readonly IChipPrice[]): string[] {
  return [...new Set(prices.map(({ name }) => name))].sort().reverse();
}

function Generation({ name, prices }: { name: string; prices: IChipPrice[] }) {
  const tier = (tier: ITPU['tier'], price: number | null) =>
    price !== null && `${tierLabel(tier)} ${usd(price)}`;
  return (
    <Rows title={name} count={prices.length}>
      {prices.map(({ date, flex_start, on_demand, region, spot }) => (
        <Row
          key={region}
          name={region}
          buttons={<strong>{usd(on_demand)}</strong>}
          more={facts(
            tier('spot', spot),
            tier('flex-start', flex_start),
            trans.__('price of %1', date)
          )}
        />
      ))}
    </Rows>
  );
}

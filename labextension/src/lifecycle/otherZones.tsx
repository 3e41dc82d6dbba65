// Where else a type is offered, and for how much: beside what Google has no capacity for.

import React from 'react';

import { trans, usd } from '../language/translation';
import { catalogCost } from '../money/costLabels';
import { ICatalog, ICost, ICreateTPU, ITPU } from '../rest/api';
import { Link } from '../ui/elements';

/** So many zones are named; a hunt can try all. */
const SHOWN = 4;

export function OtherZones(props: {
  catalog: ICatalog | null;
  request: Pick<ICreateTPU, 'type' | 'zone' | 'tier'>;
  onPick: (zone: string) => void;
}) {
  const { catalog, onPick, request } = props;
  const { tier = 'on-demand', type, zone } = request;
  const zones = elsewhere(catalog, type, zone ?? '', tier).slice(0, SHOWN);
  return zones.length === 0 ? null : (
    <div className="jp-tpu-OtherZones">
      {trans.__('Other zones with %1:', type)}{' '}
      {zones.map(({ cost: { list_usd_per_hour: price }, zone: other }) => (
        <React.Fragment key={other}>
          <span>
            <Link
              label={trans.__('Create it in %1', other)}
              onClick={() => onPick(other)}
            >
              {other}
            </Link>{' '}
            {price === null
              ? trans.__('(price unknown)')
              : trans.__('(%1/h)', usd(price))}
          </span>{' '}
        </React.Fragment>
      ))}
    </div>
  );
}

/** The zones beside *zone* that offer the type *name*, with what it costs there; the cheapest first. */
function elsewhere(
  catalog: ICatalog | null,
  name: string,
  zone: string,
  tier: ITPU['tier']
): { zone: string; cost: ICost }[] {
  const type = catalog?.types.find(one => one.name === name);
  const price = ({ cost }: { cost: ICost }) =>
    cost.list_usd_per_hour ?? Infinity;
  return (type?.zones ?? [])
    .filter(one => one !== zone)
    .map(one => ({
      zone: one,
      cost: catalogCost(type, one, tier, !!catalog?.emulated)
    }))
    .sort((one, other) => price(one) - price(other));
}

// What TPUs cost, in words. Estimates by a dated list price: an unknown price is said to be unknown.

import { facts } from '../language/text';
import { trans, usd } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { IAcceleratorType, ICost, IGrantUse, ITPU } from '../rest/api';

/** Google's prices, for people. */
export const PRICES = 'https://cloud.google.com/tpu/pricing';

/** What a type costs in a zone, by the catalog. */
export function catalogCost(
  type: IAcceleratorType | undefined,
  zone: string,
  tier: ITPU['tier'],
  emulated: boolean
): ICost {
  const price = type?.prices.find(
    one => one.region === zone.replace(/-[^-]*$/, '')
  );
  const listed =
    {
      spot: price?.spot,
      'on-demand': price?.on_demand,
      'flex-start': price?.flex_start,
      reserved: null
    }[tier] ?? null;
  return {
    usd_per_hour: emulated ? 0 : listed,
    list_usd_per_hour: listed,
    region: price?.region ?? '',
    date: price?.date ?? '',
    grant: '',
    since: '',
    usd: null
  };
}

/** The first of *grants* that has enough chips left for a new TPU; "" if none has. */
export function coveringGrant(
  grants: readonly IGrantUse[],
  type: IAcceleratorType | undefined,
  demand: { zone: string; tier: ITPU['tier']; project: string }
): string {
  const grantUse = grants.find(
    ({ expired, grant, used }) =>
      type &&
      !expired &&
      grant.project === demand.project &&
      grant.zones.includes(demand.zone) &&
      grant.tiers.includes(demand.tier) &&
      [type.name, type.generation].some(one => grant.types.includes(one)) &&
      used !== null &&
      used + type.chips <= grant.chips
  );
  return grantUse?.grant.name ?? '';
}

/** "about $9.60 an hour"; "price unknown". */
export function hourlyCost(cost: ICost): string {
  return cost.list_usd_per_hour === null
    ? trans.__('price unknown')
    : trans.__('about %1 an hour', usd(cost.list_usd_per_hour));
}

/** What a TPU costs by the hour, or why nothing: "About $9.60 an hour". */
export function priceText(cost: ICost): string {
  const listed = cost.list_usd_per_hour;
  const price = listed === null ? null : usd(listed);
  if (cost.grant) {
    return price === null
      ? trans.__(
          'In the grant %1: $0.00 an hour plus network traffic. The price outside the grant is unknown.',
          cost.grant
        )
      : trans.__(
          'In the grant %1: $0.00 an hour plus network traffic. Otherwise about %2 an hour',
          cost.grant,
          price
        );
  }
  if (cost.usd_per_hour === 0) {
    return price === null
      ? trans.__('Costs nothing. The price of a real one is unknown.')
      : trans.__('Costs nothing. A real one: about %1 an hour', price);
  }
  return price === null
    ? trans.__('Price unknown')
    : trans.__('About %1 an hour', price);
}

/** With a capital at its start, as a sentence. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Which price that is: "us-west4, on demand, list price of 2024-12-23"; "" if it is not known. */
export function priceSource(cost: ICost, tier: ITPU['tier']): string {
  return cost.list_usd_per_hour === null
    ? ''
    : trans.__(
        '%1, %2, list price of %3',
        cost.region,
        tierLabel(tier).toLowerCase(),
        cost.date
      );
}

/** The cost of a TPU in a line: by the hour while it runs, and so far. "" if it is emulated or attached. */
export function tpuCost(tpu: ITPU): string {
  const { cost } = tpu;
  if (tpu.emulated || tpu.attached) {
    return '';
  }
  const { grant, list_usd_per_hour: price, usd: soFar } = cost;
  const stopped = tpu.state === 'STOPPED';
  const hourly = grant
    ? trans.__('in the grant %1', grant)
    : stopped && price !== null
      ? trans.__('about %1 an hour when started', usd(price))
      : (stopped || tpu.state === 'READY') && hourlyCost(cost);
  return capitalized(
    facts(hourly, soFar && trans.__('about %1 so far', usd(soFar)))
  );
}

/** What a TPU costs while it is as it is now, for its row in the list: "$9.60/h". */
export function costNow(tpu: ITPU): string {
  const { grant, list_usd_per_hour: price } = tpu.cost;
  if (tpu.emulated || tpu.attached || tpu.state !== 'READY') {
    return '';
  }
  return grant
    ? trans.__('in the grant %1', grant)
    : price === null
      ? trans.__('price unknown')
      : trans.__('%1/h', usd(price));
}

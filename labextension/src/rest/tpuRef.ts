// How a TPU is named: in requests, in events, and where this page keeps something about it.

import { ITPU } from './api';

/** How the REST interface names a TPU: its zone and name. */
export type TPURef = Pick<ITPU, 'name' | 'zone'>;

/** The key of a TPU, also in events: `zone/name`. */
export function keyOf(tpu: TPURef): string {
  return `${tpu.zone}/${tpu.name}`;
}

/** The TPU that a key names. */
export function refOf(key: string): TPURef {
  const [zone, name] = key.split('/');
  return { name, zone };
}

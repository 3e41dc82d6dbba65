// How a TPU is named: in requests, in events, and where this page keeps something about it.

import { trans } from '../language/translation';
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

/** What is asked before something is done to what belongs to another person: for its name. */
export function namePrompt(one: Pick<ITPU, 'name' | 'owner'>): string {
  const { name, owner } = one;
  return trans.__('%1 belongs to %2. To continue, type “%1”.', name, owner);
}

/** What the server is told of a name that was typed, where one is needed. */
export function confirmed(name: string): { confirm_name?: string } {
  return name ? { confirm_name: name } : {};
}

// The rule for the names of TPUs.

import { trans } from '../ui/translation';

/** The server's rule for names (`TPUName` in fleet/models/tpus.py; a test compares them). */
export const NAME_PATTERN = '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$';

/** The whole rule for names, to be read before a mistake. */
export function nameRule(): string {
  return trans.__(
    '1–40 lower-case letters, digits and hyphens. Starts with a letter, ends with a letter or digit.'
  );
}

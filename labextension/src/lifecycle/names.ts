// The rule for the names of TPUs.

import { TranslationBundle } from '@jupyterlab/translation';

/** The server's rule for names (`TPUName` in fleet/models/tpus.py; a test compares them). */
export const NAME_PATTERN = '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$';

/** The whole rule for names, to be read before a mistake. */
export function nameRule(trans: TranslationBundle): string {
  return trans.__(
    '1–40 lower-case letters, digits and hyphens. Starts with a letter, ends with a letter or digit.'
  );
}

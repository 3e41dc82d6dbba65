// The rule for the names of TPUs.

import { trans } from '../language/translation';

/** The server's rule for names (`TPUName` in fleet/models/tpus.py; a test compares them). */
export const NAME_PATTERN = '^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$';

/** The whole rule for names, to be read before a mistake. */
export function nameRule(): string {
  return trans.__(
    '1–40 lower-case letters, digits and hyphens. Starts with a letter, ends with a letter or digit.'
  );
}

/** Why a name is invalid; "" if it is valid. */
export function nameProblem(name: string): string {
  if (!name) {
    return trans.__('Enter a name.');
  }
  if (!/^[a-z]/.test(name)) {
    return trans.__('Start with a lower-case letter.');
  }
  if (/[^-a-z0-9]/.test(name)) {
    return trans.__('Use lower-case letters, digits and hyphens only.');
  }
  if (name.length > 40) {
    return trans.__('Use at most 40 characters, not %1.', name.length);
  }
  if (!new RegExp(NAME_PATTERN).test(name)) {
    return trans.__('End with a letter or a digit.');
  }
  return '';
}

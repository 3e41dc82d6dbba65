// The fields that a grant and a budget have in common.

import { trans } from '../language/translation';
import { IField } from '../ui/fields';
import { WORDS } from '../ui/typed';

/** Names, so not translated. */
const EXAMPLES = { types: 'v5e', zones: 'us-central1-a' };

/** For which types and zones it is, with help for each, and its last day. */
export function limitFields<
  T extends { types: string[]; zones: string[]; until: string }
>(zonesHelp: string, typesHelp = zonesHelp): IField<T>[] {
  return [
    {
      name: 'types',
      label: trans.__('Types'),
      help: typesHelp,
      typed: WORDS,
      placeholder: EXAMPLES.types
    },
    {
      name: 'zones',
      label: trans.__('Zones'),
      help: zonesHelp,
      typed: WORDS,
      placeholder: EXAMPLES.zones
    },
    {
      name: 'until',
      label: trans.__('Last day'),
      help: trans.__('Leave empty if it has no end'),
      kind: 'date'
    }
  ];
}

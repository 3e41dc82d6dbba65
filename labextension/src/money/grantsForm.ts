// What may be used at no charge: the grants, and adding and removing some.

import { IGrant, IGrantUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';
import { namesIn } from '../ui/typed';

/** The input; types and zones are separated by commas or spaces. */
export interface IGrantFields {
  name: string;
  types: string;
  zones: string;
  tier: IGrant['tiers'][number];
  chips: string;
  until: string;
}

export class GrantsForm extends ListForm<IGrantFields, IGrantUse> {
  constructor(requests: TPUClient['grants']) {
    super({
      empty: {
        name: '',
        types: '',
        zones: '',
        tier: 'spot',
        chips: '',
        until: ''
      },
      complete: ({ chips, name, types, zones }) =>
        [name, types, zones].every(text => text.trim()) && +chips >= 1,
      list: () => requests.list(),
      add: ({ chips, name, tier, types, until, zones }) =>
        requests.add({
          name: name.trim(),
          types: namesIn(types),
          zones: namesIn(zones),
          tiers: [tier],
          chips: Number(chips),
          until
        }),
      remove: name => requests.remove(name)
    });
  }
}

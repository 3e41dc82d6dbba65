// What may be used at no charge: the grants, and adding and removing some.

import { IGrant, IGrantUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

const EMPTY = {
  name: '',
  types: [] as string[],
  zones: [] as string[],
  tier: 'spot' as IGrant['tiers'][number],
  chips: null as number | null,
  until: ''
};

export class GrantsForm extends ListForm<typeof EMPTY, IGrantUse> {
  constructor(requests: TPUClient['grants']) {
    super({
      empty: EMPTY,
      complete: ({ chips, name, types, zones }) =>
        !!name && types.length > 0 && zones.length > 0 && !!chips,
      list: () => requests.list(),
      add: ({ chips, tier, ...grant }) =>
        requests.add({ ...grant, chips: chips ?? 0, tiers: [tier] }),
      remove: name => requests.remove(name)
    });
  }
}

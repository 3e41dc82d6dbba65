// Which tokens TPUs get: their names. Values never come here.

import { IPassTokens, IToken } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

export class TokensForm extends ListForm<IPassTokens, IToken> {
  constructor(requests: TPUClient['tokens']) {
    super({
      empty: { names: [] },
      complete: ({ names }) => names.length > 0,
      list: () => requests.list(),
      add: body => requests.passOn(body),
      remove: name => requests.remove(name)
    });
  }
}

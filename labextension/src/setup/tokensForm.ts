// Which tokens TPUs get: their names, and adding and removing some. Values never come here.

import { IToken } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';
import { namesIn } from '../ui/typed';

export class TokensForm extends ListForm<{ name: string }, IToken> {
  constructor(requests: TPUClient['tokens']) {
    super({
      empty: { name: '' },
      complete: ({ name }) => !!name.trim(),
      list: () => requests.list(),
      add: ({ name }) => requests.passOn({ names: namesIn(name) }),
      remove: name => requests.remove(name)
    });
  }
}

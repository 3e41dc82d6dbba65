// Which tokens TPUs get: their names, and adding and removing some. Values never come here.

import { IToken } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

export class TokensForm extends ListForm<{ name: string }, IToken> {
  constructor(private _requests: TPUClient['tokens']) {
    super({ name: '' });
  }

  get complete(): boolean {
    return !!this.filled.name.trim();
  }

  protected list(): Promise<IToken[]> {
    return this._requests.list();
  }

  protected add(): Promise<IToken[]> {
    const names = this.filled.name.split(/[\s,]+/).filter(Boolean);
    return this._requests.passOn({ names });
  }

  protected drop(name: string): Promise<void> {
    return this._requests.remove(name);
  }
}

// Which tokens TPUs get: their names, and adding and removing some. Values never come here.

import { IToken } from '../api';
import { TPUClient } from '../model/client';
import { ListForm } from './listForm';

export class TokensForm extends ListForm<{ name: string }, IToken> {
  constructor(
    private _client: Pick<TPUClient, 'tokens' | 'passTokens' | 'removeToken'>
  ) {
    super({ name: '' });
  }

  protected list(): Promise<IToken[]> {
    return this._client.tokens();
  }

  protected add(): Promise<IToken[]> {
    const names = this.filled.name.split(/[\s,]+/).filter(Boolean);
    return this._client.passTokens({ names });
  }

  protected drop(name: string): Promise<void> {
    return this._client.removeToken(name);
  }
}

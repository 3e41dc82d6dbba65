// Which tokens TPUs get: their names, and adding and removing some. Values never come here.

import { IToken } from '../api';
import { Failure, TPUClient } from '../model/client';
import { Form } from './form';

export class TokensForm extends Form<{ name: string }, IToken[]> {
  constructor(
    private _client: Pick<TPUClient, 'tokens' | 'passTokens' | 'removeToken'>
  ) {
    super({ name: '' });
  }

  /** Those that are passed on; null until that is known. */
  get tokens(): IToken[] | null {
    return this._tokens;
  }

  /** Why the list could not be loaded. */
  get loadFailure(): Failure | null {
    return this._loadFailure;
  }

  async load(): Promise<void> {
    this._loadFailure = null;
    this.changed();
    try {
      this._tokens = await this._client.tokens();
    } catch (error) {
      this._loadFailure = Failure.from(error);
    }
    this.changed();
  }

  /** Removes one; whether it was removed. */
  async remove(name: string): Promise<void> {
    await this.send(() => this._client.removeToken(name));
    await this.load();
  }

  protected async ask(): Promise<IToken[]> {
    const names = this.filled.name.split(/[\s,]+/).filter(Boolean);
    return (this._tokens = await this._client.passTokens({ names }));
  }

  private _loadFailure: Failure | null = null;
  private _tokens: IToken[] | null = null;
}

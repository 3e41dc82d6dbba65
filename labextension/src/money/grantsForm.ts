// What may be used at no charge: the grants, and adding and removing some.

import { IGrant, IGrantUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

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
  constructor(private _requests: TPUClient['grants']) {
    super({
      name: '',
      types: '',
      zones: '',
      tier: 'spot',
      chips: '',
      until: ''
    });
  }

  get complete(): boolean {
    const { chips, name, types, zones } = this.filled;
    return [name, types, zones].every(text => text.trim()) && +chips >= 1;
  }

  protected list(): Promise<IGrantUse[]> {
    return this._requests.list();
  }

  protected add(): Promise<IGrantUse[]> {
    const { chips, name, tier, types, until, zones } = this.filled;
    const listed = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    return this._requests.add({
      name: name.trim(),
      types: listed(types),
      zones: listed(zones),
      tiers: [tier],
      chips: Number(chips),
      until
    });
  }

  protected drop(name: string): Promise<void> {
    return this._requests.remove(name);
  }
}

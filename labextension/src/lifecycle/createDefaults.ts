// What the form that creates a TPU starts with: the user's settings, else the last choices.

import { Store } from '../state/observable';
import { KeyValueStorage, Stored } from '../state/stored';

const TIERS = ['flex-start', 'on-demand', 'reserved', 'spot'];

export interface ICreateDefaults {
  type: string;
  zone: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot' | '';
  /** Seconds after which an idle TPU stops, if its price is worth it. */
  idle: string;
  packages: string;
  apt: string;
  timezone: string;
  script: string;
}

/** The choices that are remembered. */
type Choices = Pick<ICreateDefaults, 'type' | 'zone' | 'tier'>;

export class CreateDefaults extends Store {
  /** *storage* is null where the browser keeps nothing. */
  constructor(
    storage: KeyValueStorage | null = null,
    key = 'jupyter-tpu:create'
  ) {
    super();
    this._stored = new Stored(storage, key);
  }

  /** "" for what is neither set nor remembered. */
  get values(): ICreateDefaults {
    const settings = this._settings;
    const last = this._load();
    return {
      idle: '7200',
      packages: '',
      apt: '',
      timezone: '',
      script: '',
      ...settings,
      type: settings.type || last.type || '',
      zone: settings.zone || last.zone || '',
      tier: settings.tier || last.tier || ''
    };
  }

  /** Takes the user's settings in; "" for what is not set. */
  set settings(settings: Partial<ICreateDefaults>) {
    this._settings = settings;
    this.changed();
  }

  remember({ tier, type, zone }: Choices): void {
    this._stored.save({ tier, type, zone });
  }

  private _load(): Partial<Choices> {
    const last = (this._stored.load() ?? {}) as Partial<Choices>;
    return {
      type: String(last.type ?? ''),
      zone: String(last.zone ?? ''),
      tier: TIERS.includes(last.tier ?? '') ? last.tier : ''
    };
  }

  private _settings: Partial<ICreateDefaults> = {};
  private _stored: Stored;
}

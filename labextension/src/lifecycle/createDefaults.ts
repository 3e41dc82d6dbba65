// What the form that creates a TPU starts with: the user's settings, else the last choices.

import { KeyValueStorage } from '../model/storedIds';
import { Store } from '../ui/store';

const TIERS = ['flex-start', 'on-demand', 'reserved', 'spot'];

export interface ICreateDefaults {
  type: string;
  zone: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot' | '';
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
    private _storage: KeyValueStorage | null = null,
    private _key = 'jupyter-tpu:create'
  ) {
    super();
  }

  /** "" for what is neither set nor remembered. */
  get values(): ICreateDefaults {
    const {
      packages = '',
      apt = '',
      timezone = '',
      script = '',
      ...settings
    } = this._settings;
    const last = this._load();
    return {
      type: settings.type || last.type || '',
      zone: settings.zone || last.zone || '',
      tier: settings.tier || last.tier || '',
      packages,
      apt,
      timezone,
      script
    };
  }

  /** Takes the user's settings in; "" for what is not set. */
  set settings(settings: Partial<ICreateDefaults>) {
    this._settings = settings;
    this.changed();
  }

  remember({ tier, type, zone }: Choices): void {
    try {
      this._storage?.setItem(this._key, JSON.stringify({ tier, type, zone }));
    } catch {
      // No access, or no space: the next form starts without them.
    }
  }

  private _load(): Partial<Choices> {
    try {
      const { tier, type, zone } = JSON.parse(
        this._storage?.getItem(this._key) ?? '{}'
      );
      return {
        type: String(type ?? ''),
        zone: String(zone ?? ''),
        tier: TIERS.includes(tier) ? tier : ''
      };
    } catch {
      return {}; // no access, or not ours
    }
  }

  private _settings: Partial<ICreateDefaults> = {};
}

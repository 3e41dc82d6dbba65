// The form that creates a TPU: its input, suggestions and validation.

import { guardOf, NO_LIMITS } from '../guard/guardForm';
import { ILimits } from '../guard/guardLabels';
import { RUN_CHOICES, withChosen } from '../guard/guardLabels';
import {
  huntFields,
  huntOf,
  IHuntFields,
  isQueued,
  similarTypes
} from '../hunts/huntForm';
import { grouped } from '../language/grouped';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { nameProblem } from '../model/names';
import { catalogCost } from '../money/costLabels';
import {
  IAcceleratorType,
  ICatalog,
  ICost,
  ICreateTPU,
  IHostSetup,
  IHunt,
  IHuntCandidate,
  INodeOptions,
  IOperation,
  IQuote,
  IStartHunt
} from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import {
  ISessionFields,
  NO_SESSIONS,
  requirePlace
} from '../sessions/sessionForm';
import { Form } from '../ui/form';
import { packagesIn } from '../ui/packages';
import { given } from '../ui/typed';
import { CreateDefaults } from './createDefaults';
import { NO_OPTIONS, NO_SETUP } from './hostOptions';

/** What the user has agreed to pay an hour: no more is confirmed to the server. */
export type IAgreement = Pick<ICreateTPU, 'confirm_price' | 'max_price'>;

/** The suggested type: the smallest full host of the current chip. */
const USUAL_TYPE = 'v5litepod-8';

/** What is asked for as it is. */
type Asked =
  | 'api'
  | 'disk_gb'
  | 'labels'
  | 'name'
  | 'network'
  | 'reservation'
  | 'subnetwork'
  | 'tier'
  | 'type';

/** The input: the fields of the request and its parts, side by side. "": what the server chooses. */
export interface IFields
  extends
    Required<Pick<ICreateTPU, Asked>>,
    Required<INodeOptions>,
    IHostSetup,
    IHuntFields,
    ILimits,
    ISessionFields {
  zone: string;
  version: string;
  /** Seconds that a flex-start TPU runs. */
  run_for: number;
  packages: string[];
  connect: boolean;
  /** A command of the shell that starts as a job when it is connected. */
  then_run: string;
}

const EMPTY: IFields = {
  name: '',
  type: '',
  zone: '',
  tier: 'on-demand',
  run_for: 14_400,
  reservation: '',
  disk_gb: null,
  api: null,
  version: '', // which depends on those before it
  network: null,
  subnetwork: null,
  labels: {},
  packages: [],
  connect: true,
  then_run: '',
  ...NO_LIMITS,
  ...NO_OPTIONS,
  ...NO_SETUP,
  ...NO_SESSIONS,
  ...huntFields()
};

/** From this price on, in USD an hour, a TPU that can be stopped is suggested to stop when it is idle. */
const WORTH_STOPPING = 1;

/** What the form suggests until it is edited, or filled. */
const SUGGESTED: (keyof IFields)[] = ['name', 'type', 'zone', 'version'];

/** Whether *tier* is among those that are tried. */
function mayBe(tier: IFields['tier'], fields: IFields): boolean {
  const others = fields.hunt ? fields.otherTiers : [];
  return [fields.tier, ...others].includes(tier);
}

export class CreateForm extends Form<IFields> {
  constructor(
    private _model: TPUModel,
    defaults: CreateDefaults | null = null
  ) {
    super(EMPTY);
    this.defaults = defaults ?? new CreateDefaults();
    for (const store of [_model, this.defaults]) {
      store.stateChanged.connect(() => this.changed());
    }
  }

  /** What is shown until the user chooses. */
  readonly defaults: CreateDefaults;

  get catalog(): ICatalog | null {
    return this._model.catalog;
  }

  /** What is shown: the input, and suggestions for the rest. */
  get fields(): IFields {
    const { again, api, type, zone } = this.filled;
    const { apt, packages, script, tier, timezone } = this.defaults.values;
    const suggested: Partial<IFields> = {
      name: this._suggestedName(),
      version:
        (api === 'compute' && this.type?.machine?.image) ||
        (this.type?.version ?? ''),
      tier: tier || EMPTY.tier,
      packages: packagesIn(packages),
      apt: packagesIn(apt),
      timezone,
      script
    };
    const fields = {
      ...this.filled,
      ...suggested,
      ...this._editedOf(suggested),
      type: type || this._suggestedType()?.name || '',
      zone: zone || this._suggestedZone()
    };
    return {
      ...fields,
      again: again && mayBe('spot', fields),
      idle: this._edited.has('idle') ? fields.idle : this._suggestedIdle(fields)
    };
  }

  /** The chosen type; undefined if it is not in the catalog. */
  get type(): IAcceleratorType | undefined {
    const name = this.filled.type;
    const known = this.catalog?.types.find(type => type.name === name);
    return name ? known : this._suggestedType();
  }

  /** As many chips on another number of VMs, if the zone offers that. */
  get otherForm(): IAcceleratorType | undefined {
    const other = this.catalog?.types.find(
      type => type.name === this.type?.other_form
    );
    return other?.zones.includes(this.fields.zone) ? other : undefined;
  }

  /** The types by generation, in the catalog's order. */
  get generations(): [string, IAcceleratorType[]][] {
    return grouped(this.catalog?.types ?? [], ({ generation }) => generation);
  }

  /** The zones that offer the chosen type; all zones if that is not known. */
  get zones(): string[] {
    const offered = this.type?.zones ?? [];
    return offered.length > 0 ? [...offered] : (this.catalog?.zones ?? []);
  }

  /** The zones that a hunt may try, too: of all chosen types. */
  get otherZones(): string[] {
    const { otherTypes, zone } = this.fields;
    const types = this.catalog?.types ?? [];
    const more = types
      .filter(type => otherTypes.includes(type.name))
      .flatMap(type => type.zones);
    return [...new Set([...this.zones, ...more])]
      .filter(one => one !== zone)
      .sort();
  }

  /** The types that a hunt may try, too. */
  get otherTypes(): IAcceleratorType[] {
    return similarTypes(this.type, this.catalog?.types ?? []);
  }

  /** The tiers that a hunt may try, too. */
  get otherTiers(): IFields['otherTiers'] {
    const tiers = ['on-demand', 'spot', 'reserved', 'flex-start'] as const;
    return tiers.filter(tier => tier !== this.fields.tier);
  }

  /** Whether the user's default zone does not offer the chosen type. */
  get awayFromHome(): boolean {
    const home = this.catalog?.default_zone;
    return !!home && this.zones.length > 0 && !this.zones.includes(home);
  }

  /** The default zone, or the nearest that offers the chosen type. */
  get nearestZone(): string | undefined {
    return this.catalog?.suggested_zones[this.type?.name ?? ''];
  }

  /** What the chosen type costs in the chosen zone and tier. */
  get cost(): ICost {
    const { tier, zone } = this.fields;
    return catalogCost(this.type, zone, tier, !!this.catalog?.emulated);
  }

  /** What a type costs in the chosen zone, or the nearest that has it, and the chosen tier. */
  costOf(type: IAcceleratorType): ICost {
    const { tier, zone } = this.fields;
    const near = this.catalog?.suggested_zones[type.name];
    const place = type.zones.includes(zone) ? zone : (near ?? type.zones[0]);
    return catalogCost(type, place ?? '', tier, !!this.catalog?.emulated);
  }

  /** What would be created, and what it costs; null, with a failure, if the server refuses it. */
  quote(): Promise<IQuote | null> {
    return this.send(() => this._model.client.quote(this.request));
  }

  /** What a hunt would try; null, with a failure, if the server refuses it. */
  huntQuote(): Promise<IHuntCandidate[] | null> {
    const { huntRequest: request } = this;
    // Whether the user agrees is asked after this.
    const tpu = { ...request.tpu, confirm_price: true };
    return this.send(() => this._model.client.hunts.quote({ ...request, tpu }));
  }

  /** Why the name is invalid; "" if it is valid. */
  nameProblem(): string {
    const { name, zone } = this.fields;
    const taken = this._model.tpu(keyOf({ name, zone }));
    return (
      nameProblem(name) ||
      (taken
        ? trans.__('A TPU with this name already exists in %1.', zone)
        : '')
    );
  }

  set<K extends keyof IFields>(field: K, value: IFields[K]): void {
    if (field === 'type' && this.catalog) {
      // The zone that is shown stays, if it offers the new type, or comes back with a type that it offers.
      this._zone = this.filled.zone || this._zone || this.fields.zone;
    }
    super.set(field, value);
  }

  /** Starts from *request*, and the *hunt* that it was of, for another try. */
  fill(request: Partial<ICreateTPU>, hunt?: IStartHunt): void {
    this.reset();
    const { connect, guard, options, sessions } = request;
    const values: { [field: string]: unknown } = {
      ...request,
      ...options,
      ...connect,
      ...connect?.setup,
      ...guard,
      ...huntFields(hunt),
      connect: connect !== null,
      sessions: !!sessions,
      place: sessions?.place
    };
    for (const field of Object.keys(EMPTY) as (keyof IFields)[]) {
      if (values[field] || !SUGGESTED.includes(field)) {
        this.set(
          field,
          (values[field] ?? EMPTY[field]) as IFields[typeof field]
        );
      }
    }
  }

  /** The request to the server. */
  get request(): ICreateTPU {
    const { fields } = this;
    const { api, disk_gb, labels, reservation, tier, then_run } = fields;
    return {
      name: fields.name,
      type: fields.type,
      zone: fields.zone || null,
      // Which one fits depends on the control plane, which the server chooses.
      version: (this._edited.has('version') && fields.version) || null,
      tier,
      run_for: this.limited ? fields.run_for : undefined,
      reservation: (tier === 'reserved' && reservation) || undefined,
      disk_gb: disk_gb ?? undefined,
      api: api ?? undefined,
      network: fields.network,
      subnetwork: fields.subnetwork,
      options: given(fields, NO_OPTIONS),
      labels: Object.keys(labels).length > 0 ? labels : undefined,
      connect: fields.connect
        ? {
            packages: fields.packages,
            then_run: then_run || undefined,
            setup: given(fields, NO_SETUP)
          }
        : null,
      guard: guardOf(fields, this.deletes) ?? undefined,
      sessions:
        this.offersSessions && fields.sessions
          ? { place: fields.place }
          : undefined
    };
  }

  /** Whether it is likely to end while somebody works: by Google, or by its guard. */
  get offersSessions(): boolean {
    return this.preemptible || !!guardOf(this.fields, this.deletes);
  }

  /** Whether its disk is deleted then. */
  get losesDisk(): boolean {
    return this.deletes || this.fields.action === 'delete';
  }

  /** Whether the server is worth asking; null, with a failure, if not. */
  check(): Promise<true | null> {
    return this.send(async () => {
      if (this.offersSessions && this.fields.sessions) {
        requirePlace(this.fields, this.losesDisk);
      }
      return true as const;
    });
  }

  /** Whether it may be a flex-start TPU, which runs for a limited time. */
  get limited(): boolean {
    return mayBe('flex-start', this.fields);
  }

  /** For how many seconds that may be. */
  get runChoices(): number[] {
    return withChosen(RUN_CHOICES, this.fields.run_for);
  }

  /** Whether it may be a Spot TPU, which Google can preempt. */
  get preemptible(): boolean {
    return mayBe('spot', this.fields);
  }

  /** Whether it can only be deleted: a Spot TPU, and one of several hosts, can't be stopped. */
  get deletes(): boolean {
    return this._deletes(this.fields);
  }

  private _deletes(fields: IFields): boolean {
    const { hunt, otherTypes } = fields;
    const others = this.otherTypes.filter(one => otherTypes.includes(one.name));
    const types = [this.type, ...(hunt ? others : [])];
    return mayBe('spot', fields) || types.some(type => type && type.hosts > 1);
  }

  /** Seconds; null where forgetting it costs little, or where its disk would be deleted. */
  private _suggestedIdle(fields: IFields): number | null {
    const { tier, zone } = fields;
    const cost = catalogCost(this.type, zone, tier, !!this.catalog?.emulated);
    return (cost.usd_per_hour ?? 0) > WORTH_STOPPING && !this._deletes(fields)
      ? Number(this.defaults.values.idle) || null
      : null;
  }

  /** Whether it may begin its command by itself, in the startup script that Google keeps. */
  get unattended(): boolean {
    const { fields } = this;
    return (fields.hunt && isQueued(fields)) || this.limited;
  }

  /** The request for a hunt, of what is offered now. */
  get huntRequest(): IStartHunt {
    const { fields } = this;
    const types = this.otherTypes.map(type => type.name);
    const offered = {
      ...fields,
      otherZones: fields.otherZones.filter(one =>
        this.otherZones.includes(one)
      ),
      otherTypes: fields.otherTypes.filter(one => types.includes(one)),
      otherTiers: fields.otherTiers.filter(one => one !== fields.tier)
    };
    return huntOf(this.request, offered, Date.now());
  }

  /** Creates it, or starts a hunt; null, with a failure and all input kept, if the server refuses. */
  submit(agreement: IAgreement = {}): Promise<IOperation | IHunt | null> {
    return this.send(async () => {
      const { fields, huntRequest, request } = this;
      const begun = fields.hunt
        ? await this._model.startHunt({
            ...huntRequest,
            tpu: { ...huntRequest.tpu, ...agreement }
          })
        : await this._model.create({ ...request, ...agreement });
      this.defaults.remember(fields);
      this.reset();
      return begun;
    });
  }

  reset(): void {
    this._edited.clear();
    this._zone = '';
    super.reset();
  }

  protected edited(field: keyof IFields): void {
    this._edited.add(field);
    if (field === 'type' || field === 'api') {
      this._edited.delete('version'); // depends on them
    }
    if (field === 'type' && !this.zones.includes(this.filled.zone)) {
      this.filled.zone = ''; // it does not offer the type
    }
  }

  /** Those of *suggested* that the user has edited, as they were filled in. */
  private _editedOf(suggested: Partial<IFields>): Partial<IFields> {
    const names = Object.keys(suggested) as (keyof IFields)[];
    return Object.fromEntries(
      names
        .filter(name => this._edited.has(name))
        .map(name => [name, this.filled[name]])
    );
  }

  private _suggestedName(): string {
    const taken = new Set(this._model.tpus.map(tpu => tpu.name));
    for (let number = 1; ; number += 1) {
      const name = number === 1 ? 'my-tpu' : `my-tpu-${number}`;
      if (!taken.has(name)) {
        return name;
      }
    }
  }

  private _suggestedType(): IAcceleratorType | undefined {
    const types = this.catalog?.types ?? [];
    const named = (name: string) => types.find(type => type.name === name);
    return named(this.defaults.values.type) ?? named(USUAL_TYPE) ?? types[0];
  }

  private _suggestedZone(): string {
    const home = this.catalog?.default_zone ?? '';
    const preferred = [this._zone, this.defaults.values.zone, home];
    return (
      preferred.find(zone => this.zones.includes(zone)) ??
      this.nearestZone ??
      this.zones[0] ??
      home
    );
  }

  private _edited = new Set<keyof IFields>();
  /** The zone of a type that was chosen before. */
  private _zone = '';
}

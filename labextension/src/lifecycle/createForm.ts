// The form that creates a TPU: its input, suggestions and validation.

import { packagesIn } from '../environments/packages';
import { guardFields, guardOf, IGuardFields } from '../guard/guardForm';
import { RUN_CHOICES, withChosen } from '../guard/guardLabels';
import {
  huntFields,
  huntOf,
  IHuntFields,
  isQueued,
  similarTypes
} from '../hunts/huntForm';
import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { catalogCost } from '../money/costLabels';
import {
  IAcceleratorType,
  ICatalog,
  ICost,
  ICreateTPU,
  IHunt,
  IHuntCandidate,
  IOperation,
  IQuote,
  IStartHunt
} from '../rest/api';
import { Form } from '../ui/form';
import { grouped } from '../ui/grouped';
import { trans } from '../ui/translation';
import { CreateDefaults } from './createDefaults';
import {
  hasSetup,
  INodeOptionFields,
  ISetupFields,
  nodeOptionFields,
  nodeOptionsOf,
  setupFields,
  setupOf
} from './hostOptions';
import { nameProblem } from './names';

/** The suggested type: the smallest full host of the current chip. */
const USUAL_TYPE = 'v5litepod-8';

/** The input; "" for what the server chooses. */
export interface IFields
  extends ISetupFields, INodeOptionFields, IHuntFields, IGuardFields {
  name: string;
  type: string;
  zone: string;
  tier: 'flex-start' | 'on-demand' | 'reserved' | 'spot';
  /** Seconds that a flex-start TPU runs. */
  run_for: string;
  /** The reservation of a reserved TPU. */
  reservation: string;
  /** GB of each host's boot disk. */
  disk_gb: string;
  /** Google's control plane that makes it. */
  api: 'tpu' | 'compute' | '';
  version: string;
  network: string;
  subnetwork: string;
  packages: string;
  connect: boolean;
  /** A command of the shell that starts as a job when it is connected. */
  then_run: string;
}

const EMPTY: IFields = {
  name: '',
  type: '',
  zone: '',
  tier: 'on-demand',
  run_for: '14400',
  reservation: '',
  disk_gb: '',
  api: '',
  version: '',
  network: '',
  subnetwork: '',
  packages: '',
  connect: true,
  then_run: '',
  ...guardFields(),
  ...nodeOptionFields(),
  ...setupFields(),
  ...huntFields()
};

/** The fields that begin as the user's settings say. */
type Preset = 'packages' | 'apt' | 'timezone' | 'script';

/** Whether *tier* is among those that are tried. */
function mayBe(tier: IFields['tier'], fields: IFields): boolean {
  const others = fields.hunt ? fields.otherTiers : [];
  return [fields.tier, ...others].includes(tier);
}

export class CreateForm extends Form<IFields, IOperation | IHunt> {
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
    const { again, name, type, zone, version } = this.filled;
    const defaults = this.defaults.values;
    const tier = this._edited.has('tier')
      ? this.filled.tier
      : defaults.tier || this.filled.tier;
    const text = (field: Preset) =>
      this._edited.has(field) ? this.filled[field] : defaults[field];
    return {
      ...this.filled,
      name: this._edited.has('name') ? name : this._suggestedName(),
      type: type || this._suggestedType()?.name || '',
      zone: zone || this._suggestedZone(),
      tier,
      again: again && mayBe('spot', { ...this.filled, tier }),
      packages: text('packages'),
      apt: text('apt'),
      timezone: text('timezone'),
      script: text('script'),
      version: this._edited.has('version')
        ? version
        : (this.filled.api === 'compute' && this.type?.machine?.image) ||
          (this.type?.version ?? '')
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

  /** The quote to which the user has agreed: no more than its price is confirmed to the server. */
  agreed: IQuote | null = null;

  /** What a hunt would try; null, with a failure, if the server refuses it. */
  huntQuote(): Promise<IHuntCandidate[] | null> {
    const { huntRequest: request } = this;
    // Whether the user agrees is asked after this.
    const tpu = { ...request.tpu, confirm_price: true };
    return this.send(() => this._model.client.hunts.quote({ ...request, tpu }));
  }

  /** What a hunt may cost an hour, to which the user has agreed. */
  agreedHunt: Pick<ICreateTPU, 'confirm_price' | 'max_price'> = {};

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
    for (const field of ['name', 'type', 'zone', 'version'] as const) {
      if (request[field]) {
        this.set(field, request[field]);
      }
    }
    const { api, connect, network, reservation, subnetwork } = request;
    this.set('tier', request.tier ?? 'on-demand');
    this.set('packages', connect?.packages?.join('\n') ?? '');
    const setup = setupFields(connect?.setup);
    for (const field of ['apt', 'timezone', 'script'] as const) {
      this.set(field, setup[field]);
    }
    Object.assign(
      this.filled,
      {
        reservation: reservation ?? '',
        disk_gb: request.disk_gb ? String(request.disk_gb) : '',
        api: api ?? '',
        network: network ?? '',
        subnetwork: subnetwork ?? '',
        run_for: String(request.run_for ?? EMPTY.run_for),
        oh_my_zsh: setup.oh_my_zsh,
        connect: connect !== null,
        then_run: connect?.then_run ?? ''
      },
      guardFields(request.guard),
      nodeOptionFields(request.options, request.labels),
      huntFields(hunt)
    );
    this.changed();
  }

  /** The request to the server. */
  get request(): ICreateTPU {
    const { fields } = this;
    const guard = guardOf(fields, this.deletes);
    const disk_gb = Number(fields.disk_gb);
    const reservation = fields.tier === 'reserved' && fields.reservation.trim();
    return {
      name: fields.name,
      type: fields.type,
      zone: fields.zone || null,
      // Which one fits depends on the control plane, which the server chooses.
      version: (this._edited.has('version') && fields.version) || null,
      tier: fields.tier,
      ...(this.limited && { run_for: Number(fields.run_for) }),
      ...(reservation && { reservation }),
      ...(disk_gb && { disk_gb }),
      ...(fields.api && { api: fields.api }),
      network: fields.network || null,
      subnetwork: fields.subnetwork || null,
      ...nodeOptionsOf(fields),
      connect: fields.connect
        ? {
            packages: packagesIn(fields.packages),
            ...(fields.then_run.trim() && { then_run: fields.then_run }),
            ...(hasSetup(fields) && { setup: setupOf(fields) })
          }
        : null,
      ...(guard && { guard })
    };
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
    const { hunt, otherTypes } = this.fields;
    const others = this.otherTypes.filter(one => otherTypes.includes(one.name));
    const types = [this.type, ...(hunt ? others : [])];
    return this.preemptible || types.some(type => type && type.hosts > 1);
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

  protected async ask(): Promise<IOperation | IHunt> {
    const { agreed, agreedHunt, fields, huntRequest, request } = this;
    this.agreed = null;
    this.agreedHunt = {};
    const begun = fields.hunt
      ? await this._model.startHunt({
          ...huntRequest,
          tpu: { ...huntRequest.tpu, ...agreedHunt }
        })
      : await this._model.create({
          ...request,
          ...(agreed && {
            confirm_price: !!agreed.question,
            max_price: agreed.cost.usd_per_hour
          })
        });
    this.defaults.remember(fields);
    return begun;
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

  protected clear(): void {
    super.clear();
    this._edited.clear();
    this._zone = '';
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

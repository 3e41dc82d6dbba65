// The part of the form for a new TPU that makes it a hunt: what is tried besides the first choice.

import { IAcceleratorType, ICreateTPU, IStartHunt } from '../rest/api';

type Tier = NonNullable<IStartHunt['tiers']>[number];

export interface IHuntFields {
  /** Whether to try again until there is capacity. */
  hunt: boolean;
  otherZones: string[];
  otherTypes: string[];
  otherTiers: Tier[];
  /** After how many hours no attempt begins; "" for no limit. */
  hours: string;
  /** Whether attempts are queued resources; null: if there are many hours. */
  queued: boolean | null;
  /** Whether each is also tried without the queue. */
  direct: boolean;
  /** Whether it begins again when the TPU that it has found is preempted. */
  again: boolean;
}

/** A hunt that has more hours waits in Google's queue, as the server would decide. */
const OVERNIGHT = 4;

/** Whether attempts are queued resources. */
export function isQueued({ again, hours, queued }: IHuntFields): boolean {
  return queued ?? (!again && Number(hours) > OVERNIGHT);
}

/** The fields for a request; without one, those of a form that hunts for nothing. */
export function huntFields(request?: IStartHunt): IHuntFields {
  return {
    hunt: !!request,
    otherZones: request?.zones?.slice(1) ?? [],
    otherTypes: request?.types?.slice(1) ?? [],
    otherTiers: request?.tiers?.slice(1) ?? [],
    hours: '',
    queued: request?.queued ?? null,
    direct: request?.direct ?? false,
    again: !!(request?.again || request?.when_preempted)
  };
}

/**
 * *tpu* and the other choices as a hunt, which has no end if it begins again. now: milliseconds since
 * the epoch.
 */
export function huntOf(
  tpu: ICreateTPU,
  fields: IHuntFields,
  now: number
): IStartHunt {
  const { again, hours, otherTiers, otherTypes, otherZones } = fields;
  const end = new Date(now + Number(hours) * 3600_000).toISOString();
  return {
    tpu: { ...tpu, version: otherTypes.length > 0 ? null : tpu.version },
    zones: unique([...(tpu.zone ? [tpu.zone] : []), ...otherZones]),
    types: unique([tpu.type, ...otherTypes]),
    tiers: unique([tpu.tier ?? 'on-demand', ...otherTiers]),
    deadline: hours && !again ? end : '',
    queued: isQueued(fields),
    direct: isQueued(fields) && fields.direct,
    again,
    when_preempted: false
  };
}

/** The types that may stand in for *type*: as many chips, of another generation. */
export function similarTypes(
  type: IAcceleratorType | undefined,
  types: readonly IAcceleratorType[]
): IAcceleratorType[] {
  return types.filter(
    one => one.chips === type?.chips && one.generation !== type.generation
  );
}

function unique<T>(items: T[]): T[] {
  return [...new Set(items)];
}

// What can be done with a TPU in its current state.

import {
  IConnectTPU,
  IEnvironment,
  IOperation,
  IStartTPU,
  ITPU
} from '../rest/api';
import { NON_EXCLUSIVE_KINDS } from '../rest/operationKinds';

/** The environments in which a kernel can be started. */
export function startableEnvironments(tpu: ITPU): IEnvironment[] {
  if (tpu.connection === 'disconnected') {
    return [];
  }
  return tpu.environments.filter(
    environment => environment.state === 'ready' && environment.kernelspec
  );
}

/** How a TPU is connected: with an incomplete environment, if there is one. */
export function connectRequest(tpu: ITPU): IConnectTPU {
  const unfinished = tpu.environments.find(one => one.state === 'failed');
  return unfinished ? { environment: unfinished.name } : {};
}

/** How a TPU is started, for the price that was shown. */
export function startRequest({ cost }: ITPU): IStartTPU {
  const price = cost.usd_per_hour;
  return price === 0 ? {} : { confirm_price: true, max_price: price };
}

/** After which something is lost: of a TPU, an environment or a kernel. */
export type DestructiveAction =
  'delete' | 'detach' | 'disconnect' | 'environment' | 'kernel' | 'stop';

/** Whether Google has ended it for good. */
export function isGone({ state }: Pick<ITPU, 'state'>): boolean {
  return state === 'PREEMPTED' || state === 'TERMINATED';
}

/** Whether an operation of these kinds is running; without kinds: any that others must wait for. */
export function isBusy(
  operations: IOperation[],
  ...kinds: IOperation['kind'][]
): boolean {
  return operations.some(
    operation =>
      operation.state === 'running' &&
      (kinds.length === 0
        ? !NON_EXCLUSIVE_KINDS.includes(operation.kind)
        : kinds.includes(operation.kind))
  );
}

/** What decides what can be done with a TPU. */
interface ISituation {
  tpu: ITPU;
  /** Google says that it is ready. */
  ready: boolean;
  /** Something runs that others must wait for. */
  busy: boolean;
  /** It is being stopped. */
  stopping: boolean;
  /** A kernel can be started. */
  startable: boolean;
  /** What runs is a connect, which can be given up. */
  connecting: boolean;
  /** Other TPUs can be slices of one kernel with it. */
  sliceable: boolean;
}

const usable = ({ ready, stopping }: ISituation) => ready && !stopping;
const withKernels = ({ ready, startable }: ISituation) => ready && startable;
const free = ({ busy, connecting }: ISituation) => !busy || connecting;

/** When each action is possible, the most common first. */
const POSSIBLE = {
  connect: ({ busy, ready, startable, tpu }) =>
    ready && !busy && (!startable || tpu.connection === 'needs-attention'),
  notebook: withKernels,
  console: withKernels,
  example: withKernels,
  profile: withKernels,
  memory: withKernels,
  split: now => withKernels(now) && chipShares(now.tpu).length > 0,
  slices: now => withKernels(now) && now.sliceable,
  environment: ({ busy, ready }) => ready && !busy,
  terminal: usable,
  run: usable,
  job: usable,
  check: usable,
  chips: usable,
  browse: usable,
  upload: usable,
  download: usable,
  copy: usable,
  sync: usable,
  share: usable,
  tensorboard: usable,
  ray: now => usable(now) && now.startable,
  serve: usable,
  app: usable,
  tunnel: usable,
  sessions: now => usable(now) || now.tpu.environments.length > 0,
  guard: now => usable(now) && !now.tpu.attached,
  // These two cancel a running connect; any other operation must end first.
  disconnect: now => free(now) && now.tpu.connection !== 'disconnected',
  detach: now => free(now) && now.tpu.attached,
  delete: now => free(now) && !now.tpu.attached,
  replace: ({ busy, tpu }) => !busy && !tpu.attached && canReplace(tpu),
  report: ({ busy, ready, tpu }) =>
    ready && !busy && !tpu.attached && tpu.api === 'compute',
  start: ({ busy, tpu }) => !busy && tpu.state === 'STOPPED',
  stop: ({ busy, ready, tpu }) =>
    ready && !busy && !tpu.attached && !whyNotStoppable(tpu)
} satisfies { [action: string]: (now: ISituation) => boolean };

export type Action = keyof typeof POSSIBLE;

/**
 * What can be done now, the most common first.
 *
 * @param operations those of this TPU
 * @param tpus all that there are
 */
export function availableActions(
  tpu: ITPU,
  operations: IOperation[],
  tpus: ITPU[] = []
): Action[] {
  if (tpu.state === 'DELETING' || isBusy(operations, 'delete', 'detach')) {
    return [];
  }
  const now: ISituation = {
    tpu,
    ready: tpu.state === 'READY',
    busy: isBusy(operations),
    stopping: isBusy(operations, 'stop'),
    startable: startableEnvironments(tpu).length > 0,
    connecting: isBusy(operations, 'connect', 'environment', 'ray'),
    sliceable: possibleSlices(tpu, tpus).length > 0
  };
  return (Object.keys(POSSIBLE) as Action[]).filter(action =>
    POSSIBLE[action](now)
  );
}

/** The TPUs that can be slices of one kernel with *tpu*: of its zone, with an environment of it. */
export function possibleSlices(tpu: ITPU, tpus: ITPU[]): ITPU[] {
  const own = startableEnvironments(tpu).map(({ name }) => name);
  return tpus.filter(
    other =>
      other.name !== tpu.name &&
      other.project === tpu.project &&
      other.zone === tpu.zone &&
      !other.attached &&
      other.state === 'READY' &&
      startableEnvironments(other).some(({ name }) => own.includes(name))
  );
}

/** How many of a host's chips a kernel can have, other than all. */
export function chipShares(tpu: ITPU): number[] {
  const ofHost = tpu.chips / Math.max(1, tpu.hosts.length);
  return [1, 2, 4].filter(share => ofHost % 4 === 0 && share < ofHost);
}

/** Whether it can be deleted and created again as it was. */
function canReplace(tpu: ITPU): boolean {
  const settled = ['READY', 'STOPPED', 'PREEMPTED', 'TERMINATED', 'FAILED'];
  return !tpu.queued && !tpu.not_yours && settled.includes(tpu.state);
}

/** Why Google can't stop a TPU that is ready; null if it can. */
export function whyNotStoppable(
  tpu: ITPU
): 'flex-start' | 'hosts' | 'spot' | null {
  if (tpu.hosts.length > 1) {
    return 'hosts';
  }
  // Compute Engine does not start such a TPU again.
  const flex = tpu.tier === 'flex-start' && tpu.api === 'compute';
  return flex ? 'flex-start' : tpu.tier === 'spot' ? 'spot' : null;
}

/** The action with a button of its own; the others are in the menu. */
export function primaryAction(actions: Action[]): Action | undefined {
  const main: Action[] = ['connect', 'notebook', 'start'];
  const first = actions.find(action => main.includes(action));
  const rare: Action[] = ['delete', 'replace'];
  const over =
    actions.includes('delete') && actions.every(one => rare.includes(one));
  return first ?? (over ? 'delete' : undefined);
}

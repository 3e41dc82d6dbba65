// What can be done with a TPU in the state that it is in.

import { IEnvironment, IOperation, ITPU } from '../api';

export type Action =
  | 'app'
  | 'connect'
  | 'console'
  | 'delete'
  | 'disconnect'
  | 'environment'
  | 'notebook'
  | 'start'
  | 'stop'
  | 'tensorboard'
  | 'tunnel';

/** Google's states in which a node is on its way to another one. */
const TRANSITIONAL_STATES = [
  'CREATING',
  'DELETING',
  'REIMAGING',
  'REPAIRING',
  'RESTARTING',
  'STARTING',
  'STOPPING'
];

/** Google's states from which a node never comes back. */
const FINAL_STATES = ['PREEMPTED', 'TERMINATED'];

/** How a state looks: what the dot beside it says. */
export type Tone = 'good' | 'moving' | 'quiet' | 'bad';

export function toneOfState(state: string): Tone {
  if (state === 'READY') {
    return 'good';
  }
  if (TRANSITIONAL_STATES.includes(state)) {
    return 'moving';
  }
  return FINAL_STATES.includes(state) || state === 'UNKNOWN' ? 'bad' : 'quiet';
}

export function toneOfConnection(tpu: ITPU): Tone {
  switch (tpu.connection) {
    case 'connected':
      return 'good';
    case 'connecting':
    case 'reconnecting':
      return 'moving';
    case 'needs-you':
      return 'bad';
    default:
      return 'quiet';
  }
}

/** The environments from which a kernel can be started now. */
export function startableEnvironments(tpu: ITPU): IEnvironment[] {
  if (tpu.connection === 'disconnected') {
    return [];
  }
  return tpu.environments.filter(
    environment => environment.state === 'ready' && environment.kernelspec
  );
}

/** Operations beside which anything else may be done. */
const NON_EXCLUSIVE_KINDS: IOperation['kind'][] = ['profile', 'tensorboard'];

/** Whether an operation of this kind (of any that others have to wait for, if none is named) runs on the TPU. */
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

/**
 * What can be done now, the most likely first.
 *
 * @param operations those of this TPU
 */
export function availableActions(
  tpu: ITPU,
  operations: IOperation[]
): Action[] {
  const actions: Action[] = [];
  if (tpu.state === 'DELETING' || isBusy(operations, 'delete')) {
    return actions;
  }
  const busy = isBusy(operations);
  if (tpu.state === 'READY') {
    if (tpu.connection === 'needs-you' && !busy) {
      actions.push('connect');
    }
    if (startableEnvironments(tpu).length > 0) {
      actions.push('notebook', 'console');
    } else if (!busy && !actions.includes('connect')) {
      actions.push('connect');
    }
    if (!busy) {
      actions.push('environment');
    }
    if (!isBusy(operations, 'stop')) {
      actions.push('tensorboard', 'app', 'tunnel');
    }
  }
  // A connect that is under way is cancelled by these; anything else must end first.
  if (!busy || isBusy(operations, 'connect', 'environment')) {
    if (tpu.connection !== 'disconnected') {
      actions.push('disconnect');
    }
    actions.push('delete');
  }
  if (!busy && tpu.state === 'STOPPED') {
    actions.push('start');
  }
  // Google stops and starts single TPU VMs only, and no spot ones.
  if (
    !busy &&
    tpu.state === 'READY' &&
    tpu.hosts.length <= 1 &&
    tpu.tier !== 'spot'
  ) {
    actions.push('stop');
  }
  return actions;
}

/** The action that has a button of its own; the others are in the menu. */
export function primaryAction(actions: Action[]): Action | undefined {
  const main: Action[] = ['connect', 'notebook', 'start'];
  const first = actions.find(action => main.includes(action));
  const over = actions.length === 1 && actions[0] === 'delete';
  return first ?? (over ? 'delete' : undefined);
}

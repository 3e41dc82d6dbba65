// What can be done with a TPU in its current state.

import { IEnvironment, IOperation, ITPU } from '../rest/api';
import { NON_EXCLUSIVE_KINDS } from '../rest/operationKinds';

export type Action =
  | 'app'
  | 'browse'
  | 'check'
  | 'chips'
  | 'connect'
  | 'console'
  | 'copy'
  | 'delete'
  | 'detach'
  | 'disconnect'
  | 'download'
  | 'environment'
  | 'example'
  | 'guard'
  | 'job'
  | 'memory'
  | 'notebook'
  | 'profile'
  | 'replace'
  | 'report'
  | 'run'
  | 'share'
  | 'split'
  | 'start'
  | 'stop'
  | 'sync'
  | 'tensorboard'
  | 'terminal'
  | 'tunnel'
  | 'upload';

/** The environments in which a kernel can be started. */
export function startableEnvironments(tpu: ITPU): IEnvironment[] {
  if (tpu.connection === 'disconnected') {
    return [];
  }
  return tpu.environments.filter(
    environment => environment.state === 'ready' && environment.kernelspec
  );
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

/**
 * What can be done now, the most common first.
 *
 * @param operations those of this TPU
 */
export function availableActions(
  tpu: ITPU,
  operations: IOperation[]
): Action[] {
  const actions: Action[] = [];
  if (tpu.state === 'DELETING' || isBusy(operations, 'delete', 'detach')) {
    return actions;
  }
  const busy = isBusy(operations);
  if (tpu.state === 'READY') {
    if (tpu.connection === 'needs-attention' && !busy) {
      actions.push('connect');
    }
    if (startableEnvironments(tpu).length > 0) {
      actions.push('notebook', 'console', 'example', 'profile', 'memory');
      if (chipShares(tpu).length > 0) {
        actions.push('split');
      }
    } else if (!busy && !actions.includes('connect')) {
      actions.push('connect');
    }
    if (!busy) {
      actions.push('environment');
    }
    if (!isBusy(operations, 'stop')) {
      actions.push(
        'terminal',
        'run',
        'job',
        'check',
        'chips',
        'browse',
        'upload',
        'download',
        'copy',
        'sync',
        'share'
      );
      actions.push('tensorboard', 'app', 'tunnel');
      if (!tpu.attached) {
        actions.push('guard');
      }
    }
  }
  // These cancel a running connect; any other operation must end first.
  if (!busy || isBusy(operations, 'connect', 'environment')) {
    if (tpu.connection !== 'disconnected') {
      actions.push('disconnect');
    }
    actions.push(tpu.attached ? 'detach' : 'delete');
  }
  if (!busy && !tpu.attached && canReplace(tpu)) {
    actions.push('replace');
    if (tpu.state === 'READY' && tpu.api === 'compute') {
      actions.push('report');
    }
  }
  if (!busy && tpu.state === 'STOPPED') {
    actions.push('start');
  }
  if (
    !busy &&
    tpu.state === 'READY' &&
    !tpu.attached &&
    !whyNotStoppable(tpu)
  ) {
    actions.push('stop');
  }
  return actions;
}

/** How many of a host's chips a kernel can have, other than all. */
export function chipShares(tpu: ITPU): number[] {
  const ofHost = tpu.chips / Math.max(1, tpu.hosts.length);
  return [1, 2, 4].filter(each => ofHost % 4 === 0 && each < ofHost);
}

/** Whether it can be deleted and created again as it was. */
function canReplace(tpu: ITPU): boolean {
  const changing = ['CREATING', 'STARTING', 'STOPPING', 'RESTARTING'];
  return (
    !tpu.queued &&
    !tpu.not_yours &&
    !changing.includes(tpu.state) &&
    tpu.state !== 'REPAIRING'
  );
}

/** Why Google can't stop a TPU that is ready. */
export type NotStoppable = 'flex-start' | 'hosts' | 'spot';

/** Why Google can't stop a TPU that is ready; null if it can. */
export function whyNotStoppable(tpu: ITPU): NotStoppable | null {
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
  const over = actions.every(one => ['delete', 'replace'].includes(one));
  return first ?? (over && actions.length ? 'delete' : undefined);
}

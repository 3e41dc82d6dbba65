// What the panel calls states, actions and operations, in the user's language.

import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

import { Action } from './model/availableActions';
import {
  IAcceleratorType,
  IApp,
  IHost,
  IOperation,
  IStep,
  ITPU,
  ITunnel
} from './api';
import { Failure } from './model/client';

/** The extension's strings in the user's language. */
export function loadTranslation(
  translator: ITranslator | null
): TranslationBundle {
  return (translator ?? nullTranslator).load('jupyter_tpu');
}

/** A node's state, by Google's name for it. */
export function stateLabel(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'CREATING':
      return trans.__('Creating');
    case 'DELETING':
      return trans.__('Deleting');
    case 'HIDDEN':
    case 'HIDING':
    case 'UNHIDING':
      return trans.__('Hidden by Google');
    case 'PREEMPTED':
      return trans.__('Taken back by Google');
    case 'READY':
      return trans.__('Ready');
    case 'REIMAGING':
      return trans.__('Changing its image');
    case 'REPAIRING':
      return trans.__('Under repair');
    case 'RESTARTING':
      return trans.__('Restarting');
    case 'STARTING':
      return trans.__('Starting');
    case 'STOPPED':
      return trans.__('Stopped');
    case 'STOPPING':
      return trans.__('Stopping');
    case 'TERMINATED':
      return trans.__('Ended by Google');
    default:
      return trans.__('Unknown state');
  }
}

export function connectionLabel(tpu: ITPU, trans: TranslationBundle): string {
  switch (tpu.connection) {
    case 'connected':
      return trans.__('Connected');
    case 'connecting':
      return trans.__('Connecting');
    case 'needs-you':
      return trans.__('Needs you');
    case 'reconnecting':
      return trans.__('Reconnecting');
    default:
      return trans.__('Not connected');
  }
}

export function linkLabel(host: IHost, trans: TranslationBundle): string {
  switch (host.link.state) {
    case 'connecting':
      return trans.__('connecting');
    case 'needs-you':
      return trans.__('needs you');
    case 'silent':
      return trans.__('does not answer');
    case 'up':
      return trans.__('linked');
    case 'waiting':
      return trans.__('waiting to try again');
    default:
      return trans.__('no link');
  }
}

export function tierLabel(
  tier: ITPU['tier'],
  trans: TranslationBundle
): string {
  switch (tier) {
    case 'spot':
      return trans.__('Spot');
    case 'reserved':
      return trans.__('Reserved');
    default:
      return trans.__('On demand');
  }
}

export function actionLabel(action: Action, trans: TranslationBundle): string {
  switch (action) {
    case 'connect':
      return trans.__('Connect');
    case 'console':
      return trans.__('New Console');
    case 'delete':
      return trans.__('Delete…');
    case 'disconnect':
      return trans.__('Disconnect');
    case 'environment':
      return trans.__('New Environment…');
    case 'notebook':
      return trans.__('New Notebook');
    case 'start':
      return trans.__('Start');
    case 'stop':
      return trans.__('Stop');
    case 'app':
      return trans.__('Open a Port…');
    case 'tensorboard':
      return trans.__('TensorBoard…');
    case 'tunnel':
      return trans.__('New Tunnel…');
  }
}

export function tunnelLabel(tunnel: ITunnel, trans: TranslationBundle): string {
  switch (tunnel.state) {
    case 'elsewhere':
      return trans.__('another server’s');
    case 'needs-you':
      return trans.__('needs you');
    case 'open':
      return trans.__('open');
    case 'taken':
      return trans.__('port is taken');
    case 'waiting':
      return trans.__('waiting for the link');
  }
}

export function appLabel(app: IApp, trans: TranslationBundle): string {
  switch (app.state) {
    case 'needs-you':
      return trans.__('needs you');
    case 'open':
      return trans.__('open');
    case 'waiting':
      return trans.__('waiting for the link');
  }
}

/** "1.2 MB sent, 30 MB received"; "" while nothing went through. */
export function trafficLabel(
  sent: number,
  received: number,
  trans: TranslationBundle
): string {
  return sent + received > 0
    ? trans.__('%1 sent, %2 received', bytes(sent), bytes(received))
    : '';
}

/** Decimal units, as of disks and lines. */
function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

export function kernelCountLabel(
  count: number,
  trans: TranslationBundle
): string {
  return trans._n('%1 kernel', '%1 kernels', count);
}

/** What an operation is for, while it runs: "Connecting my-tpu". */
export function operationTitle(
  operation: IOperation,
  trans: TranslationBundle
): string {
  const name = operation.tpu;
  switch (operation.state) {
    case 'running':
      switch (operation.kind) {
        case 'compile':
          return trans.__('Compiling');
        case 'connect':
          return trans.__('Connecting %1', name);
        case 'create':
          return trans.__('Creating %1', name);
        case 'delete':
          return trans.__('Deleting %1', name);
        case 'disconnect':
          return trans.__('Disconnecting %1', name);
        case 'environment':
          return trans.__('Making an environment on %1', name);
        case 'start':
          return trans.__('Starting %1', name);
        case 'stop':
          return trans.__('Stopping %1', name);
        case 'tensorboard':
          return trans.__('Opening TensorBoard on %1', name);
        case 'profile':
          return trans.__('Tracing a kernel on %1', name);
      }
      break;
    case 'done':
      switch (operation.kind) {
        case 'compile':
          return trans.__('Compiled');
        case 'connect':
          return trans.__('%1 is connected', name);
        case 'create':
          return trans.__('%1 is created', name);
        case 'delete':
          return trans.__('%1 is deleted', name);
        case 'disconnect':
          return trans.__('%1 is disconnected', name);
        case 'environment':
          return trans.__('The environment on %1 is ready', name);
        case 'start':
          return trans.__('%1 is started', name);
        case 'stop':
          return trans.__('%1 is stopped', name);
        case 'tensorboard':
          return trans.__('TensorBoard on %1 is open', name);
        case 'profile':
          return trans.__('A kernel on %1 was traced', name);
      }
      break;
    case 'cancelled':
      switch (operation.kind) {
        case 'compile':
          return trans.__('Compiling was cancelled');
        case 'connect':
          return trans.__('Connecting %1 was cancelled', name);
        case 'create':
          return trans.__('Creating %1 was cancelled', name);
        case 'delete':
          return trans.__('Deleting %1 was cancelled', name);
        case 'disconnect':
          return trans.__('Disconnecting %1 was cancelled', name);
        case 'environment':
          return trans.__('The environment on %1 was cancelled', name);
        case 'start':
          return trans.__('Starting %1 was cancelled', name);
        case 'stop':
          return trans.__('Stopping %1 was cancelled', name);
        case 'tensorboard':
          return trans.__('TensorBoard on %1 was cancelled', name);
        case 'profile':
          return trans.__('Tracing a kernel on %1 was cancelled', name);
      }
      break;
    default:
      switch (operation.kind) {
        case 'compile':
          return trans.__('The program could not be compiled');
        case 'connect':
          return trans.__('%1 could not be connected', name);
        case 'create':
          return trans.__('%1 could not be created', name);
        case 'delete':
          return trans.__('%1 could not be deleted', name);
        case 'disconnect':
          return trans.__('%1 could not be disconnected', name);
        case 'environment':
          return trans.__('The environment on %1 could not be made', name);
        case 'start':
          return trans.__('%1 could not be started', name);
        case 'stop':
          return trans.__('%1 could not be stopped', name);
        case 'tensorboard':
          return trans.__('TensorBoard on %1 could not be opened', name);
        case 'profile':
          return trans.__('The kernel on %1 could not be traced', name);
      }
  }
}

/** "Installing JAX · 2 of 4 hosts" */
export function stepLabel(step: IStep, trans: TranslationBundle): string {
  if (step.hosts > 1 && step.state === 'running') {
    const hosts = trans.__('%1 of %2 hosts', step.hosts_done, step.hosts);
    return `${step.title} · ${hosts}`;
  }
  return step.title;
}

export function stepStateLabel(
  state: IStep['state'],
  trans: TranslationBundle
): string {
  switch (state) {
    case 'done':
      return trans.__('done');
    case 'failed':
      return trans.__('failed');
    case 'running':
      return trans.__('running');
    case 'skipped':
      return trans.__('skipped');
    default:
      return trans.__('waiting');
  }
}

/** What a running operation is doing now. */
export function currentStep(
  operation: IOperation,
  trans: TranslationBundle
): string {
  const step = operation.steps.find(one => one.state === 'running');
  return step ? stepLabel(step, trans) : operation.message;
}

/** What a type means, in a sentence below its name. */
export function typeDescription(
  type: IAcceleratorType,
  trans: TranslationBundle
): string {
  const devices =
    type.hosts > 1
      ? trans.__(
          'JAX sees %1 devices, %2 on each host.',
          type.devices,
          type.devices_per_host
        )
      : trans._n('JAX sees %1 device.', 'JAX sees %1 devices.', type.devices);
  return `${type.meaning}. ${devices}`;
}

/** "3 min ago"; "" if the time is not known. */
export function ago(time: string, now: number, language: string): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  if (Number.isNaN(seconds)) {
    return '';
  }
  const units: [Intl.RelativeTimeFormatUnit, number][] = [
    ['day', 86400],
    ['hour', 3600],
    ['minute', 60]
  ];
  const [unit, size] = units.find(([, one]) => -seconds >= one) ?? [
    'second',
    1
  ];
  return new Intl.RelativeTimeFormat(language, {
    numeric: 'auto',
    style: 'short'
  }).format(Math.round(Math.min(seconds, 0) / size), unit);
}

/** A failure of the way to the server, in the user's language. */
export function failureText(
  failure: Pick<Failure, 'message' | 'hint'> & { reason: string },
  trans: TranslationBundle
): { message: string; hint: string } {
  switch (failure.reason) {
    case 'NETWORK':
      return {
        message: trans.__('The Jupyter server does not answer.'),
        hint: trans.__('Check that it is running, and your network.')
      };
    case 'MISSING':
      return {
        message: trans.__('The TPU extension of the Jupyter server is off.'),
        hint: trans.__(
          'Run `jupyter server extension enable jupyter_tpu` in a terminal and restart the server.'
        )
      };
    default:
      return { message: failure.message, hint: failure.hint };
  }
}

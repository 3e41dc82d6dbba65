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
function stateLabel(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'CREATING':
      return trans.__('Creating');
    case 'DELETING':
      return trans.__('Deleting');
    case 'HIDDEN':
    case 'HIDING':
    case 'UNHIDING':
      return trans.__('Hidden');
    case 'PREEMPTED':
      return trans.__('Preempted');
    case 'REIMAGING':
      return trans.__('Reimaging');
    case 'REPAIRING':
      return trans.__('Repairing');
    case 'RESTARTING':
      return trans.__('Restarting');
    case 'STARTING':
      return trans.__('Starting');
    case 'STOPPED':
      return trans.__('Stopped');
    case 'STOPPING':
      return trans.__('Stopping');
    case 'TERMINATED':
      return trans.__('Terminated');
    default:
      return trans.__('Unknown state');
  }
}

/** How a state looks: the dot beside its label. */
export type Tone = 'good' | 'moving' | 'quiet' | 'bad';

/** Google's states that lead to another one. */
const TRANSITIONAL_STATES = [
  'CREATING',
  'DELETING',
  'REIMAGING',
  'REPAIRING',
  'RESTARTING',
  'STARTING',
  'STOPPING'
];

/** Google's states from which a node never comes back, or of which we know nothing. */
const BAD_STATES = ['PREEMPTED', 'TERMINATED', 'UNKNOWN'];

/** The state of a TPU in a word: of its connection where it is ready, else Google's. */
export function tpuStatus(
  tpu: ITPU,
  trans: TranslationBundle
): { label: string; tone: Tone } {
  if (tpu.connection === 'needs-you') {
    return { label: trans.__('Needs attention'), tone: 'bad' };
  }
  if (tpu.state !== 'READY') {
    const tone = TRANSITIONAL_STATES.includes(tpu.state)
      ? 'moving'
      : BAD_STATES.includes(tpu.state)
        ? 'bad'
        : 'quiet';
    return { label: stateLabel(tpu.state, trans), tone };
  }
  switch (tpu.connection) {
    case 'connected':
      return { label: trans.__('Connected'), tone: 'good' };
    case 'connecting':
      return { label: trans.__('Connecting'), tone: 'moving' };
    case 'reconnecting':
      return { label: trans.__('Reconnecting'), tone: 'moving' };
    default:
      return { label: trans.__('Ready to connect'), tone: 'quiet' };
  }
}

export function kernelStateLabel(
  state: string,
  trans: TranslationBundle
): string {
  switch (state) {
    case 'busy':
      return trans.__('busy');
    case 'dead':
      return trans.__('dead');
    case 'idle':
      return trans.__('idle');
    case 'starting':
      return trans.__('starting');
    default:
      return state; // a kernel may have states of its own
  }
}

/** Why a host is not connected; "" if it is, or need not be. */
export function linkLabel(host: IHost, trans: TranslationBundle): string {
  switch (host.link.state) {
    case 'connecting':
      return trans.__('connecting');
    case 'needs-you':
      return trans.__('needs attention');
    case 'silent':
      return trans.__('not responding');
    case 'waiting':
      return trans.__('retrying');
    default:
      return '';
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
      return trans.__('Open Web App…');
    case 'tensorboard':
      return trans.__('Open TensorBoard…');
    case 'tunnel':
      return trans.__('New Tunnel…');
  }
}

export function tunnelLabel(tunnel: ITunnel, trans: TranslationBundle): string {
  switch (tunnel.state) {
    case 'elsewhere':
      return trans.__('used by another server');
    case 'needs-you':
      return trans.__('needs attention');
    case 'open':
      return trans.__('open');
    case 'taken':
      return trans.__('local port in use');
    case 'waiting':
      return trans.__('waiting for the connection');
  }
}

export function appLabel(app: IApp, trans: TranslationBundle): string {
  switch (app.state) {
    case 'needs-you':
      return trans.__('needs attention');
    case 'open':
      return trans.__('open');
    case 'waiting':
      return trans.__('waiting for the connection');
  }
}

/** "1.2 MB sent, 30 MB received"; "" for no traffic. */
export function trafficLabel(
  sent: number,
  received: number,
  trans: TranslationBundle
): string {
  return sent + received > 0
    ? trans.__('%1 sent, %2 received', bytes(sent), bytes(received))
    : '';
}

/** In decimal units. */
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

/** What an operation does or has done: "Connecting my-tpu". */
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
          return trans.__('Creating an environment on %1', name);
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
          return trans.__('Connected %1', name);
        case 'create':
          return trans.__('Created %1', name);
        case 'delete':
          return trans.__('Deleted %1', name);
        case 'disconnect':
          return trans.__('Disconnected %1', name);
        case 'environment':
          return trans.__('Created an environment on %1', name);
        case 'start':
          return trans.__('Started %1', name);
        case 'stop':
          return trans.__('Stopped %1', name);
        case 'tensorboard':
          return trans.__('Opened TensorBoard on %1', name);
        case 'profile':
          return trans.__('Traced a kernel on %1', name);
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
          return trans.__('Creating an environment on %1 was cancelled', name);
        case 'start':
          return trans.__('Starting %1 was cancelled', name);
        case 'stop':
          return trans.__('Stopping %1 was cancelled', name);
        case 'tensorboard':
          return trans.__('Opening TensorBoard on %1 was cancelled', name);
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
          return trans.__('The environment on %1 could not be created', name);
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

/** The step that a running operation is at. */
export function currentStep(
  operation: IOperation,
  trans: TranslationBundle
): string {
  const step = operation.steps.find(one => one.state === 'running');
  return step ? stepLabel(step, trans) : operation.message;
}

/** What a type has, as a sentence below its name. */
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

/** "3 min ago"; "" for an unknown time. */
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

/** What a failure says, in the user's language where it comes from this page. */
export function failureText(
  failure: Pick<Failure, 'message' | 'hint'> & { reason: string },
  trans: TranslationBundle
): { message: string; hint: string } {
  switch (failure.reason) {
    case 'NETWORK':
      return {
        message: trans.__('The Jupyter server is not responding.'),
        hint: trans.__('Check that it is running and that you are online.')
      };
    case 'MISSING':
      return {
        message: trans.__(
          'The TPU extension is not enabled on the Jupyter server.'
        ),
        hint: trans.__(
          'Run `jupyter server extension enable jupyter_tpu` in a terminal and restart the server.'
        )
      };
    case 'DENIED':
      return {
        message: trans.__('The Jupyter server refused the request.'),
        hint: trans.__('Check that you are logged in.')
      };
    case 'STATUS':
      return {
        message: trans.__(
          'The Jupyter server answered with an error: %1',
          failure.message
        ),
        hint: ''
      };
    case 'CLOSED':
      return { message: trans.__('It was closed while it opened.'), hint: '' };
    default:
      return { message: failure.message, hint: failure.hint };
  }
}

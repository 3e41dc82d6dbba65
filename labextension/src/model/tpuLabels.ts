// What the panel says of TPUs, hosts and kernels, and the names of actions.

import { PathExt } from '@jupyterlab/coreutils';

import { clock, Tone, trans } from '../language/translation';
import { IAcceleratorType, ICheckpoint, IHost, ITPU } from '../rest/api';

/** What a TPU does: by its cloud's name for that, where it has one of its own. */
export function stateLabel(tpu: {
  state: string;
  cloud_state?: string;
  api?: string;
}): string {
  let word = tpu.cloud_state || tpu.state;
  // Compute Engine's words are of its instances: TERMINATED is a TPU that was stopped or preempted.
  if (tpu.api === 'compute' && word !== 'PENDING' && tpu.state !== 'UNKNOWN') {
    word = tpu.state;
  }
  const hidden = trans.__('Hidden');
  const unknown =
    tpu.state === 'FAILED' ? trans.__('Failed') : trans.__('Unknown state');
  const labels: { [word: string]: string } = {
    PENDING: trans.__('Waiting for capacity'),
    CREATING: trans.__('Creating'),
    DELETING: trans.__('Deleting'),
    FAILED: unknown,
    UNKNOWN: unknown,
    HIDDEN: hidden,
    HIDING: hidden,
    UNHIDING: hidden,
    PREEMPTED: trans.__('Preempted'),
    READY: trans.__('Ready to connect'),
    REIMAGING: trans.__('Reimaging'),
    REPAIRING: trans.__('Repairing'),
    RESTARTING: trans.__('Restarting'),
    STARTING: trans.__('Starting'),
    STOPPED: trans.__('Stopped'),
    STOPPING: trans.__('Stopping'),
    TERMINATED: trans.__('Terminated')
  };
  return labels[word] ?? word; // one that is newer than this program
}

/** "train.ipynb: save() finished after 3 s." */
function checkpointLabel(run: ICheckpoint): string {
  const place = run.notebook
    ? PathExt.basename(run.notebook)
    : trans.__('Host %1', run.host);
  switch (run.state) {
    case 'running':
      return trans.__('%1: %2 is running.', place, run.what);
    case 'done':
      return trans.__(
        '%1: %2 finished after %3 s.',
        place,
        run.what,
        run.seconds
      );
    case 'failed':
      return trans.__('%1: %2 failed. %3', place, run.what, run.error);
  }
}

/**
 * The maintenance or preemption that was announced, or goes on, and what to do; null where there
 * is none.
 */
export function maintenanceText(
  tpu: ITPU
): { message: string; hint: string } | null {
  const { interruption, maintenance, name } = tpu;
  if (interruption) {
    return {
      message:
        interruption.kind === 'preemption'
          ? trans.__('Google is about to preempt %1.', name)
          : trans.__('Google is about to restart %1 for maintenance.', name),
      hint: interruption.checkpoints.length
        ? interruption.checkpoints
            .map(checkpoint => checkpointLabel(checkpoint))
            .join(' ')
        : trans.__(
            'This ends everything that runs there. Save your results now.'
          )
    };
  }
  if (!maintenance) {
    return null;
  }
  if (maintenance.ongoing) {
    return {
      message: trans.__('Maintenance of %1 is in progress.', name),
      hint: trans.__('What ran there may have ended.')
    };
  }
  const begin = Date.parse(maintenance.start);
  return {
    message: Number.isNaN(begin)
      ? trans.__('Maintenance of %1 is scheduled soon.', name)
      : trans.__(
          'Maintenance of %1 is scheduled: %2.',
          name,
          clock(maintenance.start)
        ),
    hint: trans.__(
      'Everything that runs there will end. Save your results first.'
    )
  };
}

/** States that lead to another one. */
const TRANSITIONAL_STATES = [
  'CREATING',
  'DELETING',
  'REPAIRING',
  'RESTARTING',
  'STARTING',
  'STOPPING'
];

/** States from which a TPU never comes back, or of which we know nothing. */
const BAD_STATES = ['FAILED', 'PREEMPTED', 'TERMINATED', 'UNKNOWN'];

/** The state of a TPU in a word: of its connection where it is ready, else its own. */
export function tpuStatus(tpu: ITPU): { label: string; tone: Tone } {
  if (tpu.connection === 'needs-attention') {
    return { label: trans.__('Needs attention'), tone: 'bad' };
  }
  if (tpu.state !== 'READY') {
    const tone = TRANSITIONAL_STATES.includes(tpu.state)
      ? 'moving'
      : BAD_STATES.includes(tpu.state)
        ? 'bad'
        : 'quiet';
    return { label: stateLabel(tpu), tone };
  }
  switch (tpu.connection) {
    case 'connected':
      return { label: trans.__('Connected'), tone: 'good' };
    case 'connecting':
      return { label: trans.__('Connecting'), tone: 'moving' };
    case 'reconnecting':
      return { label: trans.__('Reconnecting'), tone: 'moving' };
    default:
      return { label: stateLabel(tpu), tone: 'quiet' };
  }
}

/** Why a host is not connected; "" if it is, or need not be. */
export function linkLabel(host: IHost): string {
  const { state } = host.link;
  return ['up', 'down'].includes(state) ? '' : linkWord(state);
}

/** The state of a host's link in a word. */
export function linkWord(state: IHost['link']['state']): string {
  return {
    connecting: trans.__('connecting'),
    down: trans.__('not connected'),
    'needs-attention': trans.__('needs attention'),
    silent: trans.__('not responding'),
    up: trans.__('connected'),
    waiting: trans.__('retrying')
  }[state];
}

export function tierLabel(tier: ITPU['tier']): string {
  const labels: { [state: string]: string } = {
    spot: trans.__('Spot'),
    reserved: trans.__('Reserved'),
    'flex-start': trans.__('Flex-start')
  };
  return labels[tier] ?? trans.__('On demand');
}

/** What a notebook has of a TPU of several hosts. */
export function notebookDevices(type: IAcceleratorType): string {
  return trans.__(
    'A notebook uses all hosts, or one host: %1 of %2 devices.',
    type.devices_per_host,
    type.devices
  );
}

/** What a type has, as a sentence below its name. */
export function typeDescription(type: IAcceleratorType): string {
  const devices =
    type.hosts > 1
      ? notebookDevices(type)
      : trans._n('JAX sees %1 device.', 'JAX sees %1 devices.', type.devices);
  return trans.__('%1. %2', type.meaning, devices);
}

// Kernels in words.

import { PathExt } from '@jupyterlab/coreutils';

import { hostRanges } from '../language/hostRanges';
import { trans } from '../language/translation';
import { IKernel } from '../rest/api';

export function kernelStateLabel(state: string): string {
  const labels: { [state: string]: string } = {
    busy: trans.__('busy'),
    dead: trans.__('dead'),
    idle: trans.__('idle'),
    starting: trans.__('starting'),
    stuck: trans.__('not reacting'),
    waiting: trans.__('waiting for other hosts')
  };
  return labels[state] ?? state; // a kernel may have states of its own
}

/** Where a kernel of a TPU with several hosts runs. */
export function kernelPlace(kernel: IKernel): string {
  return kernel.hosts.length > 0
    ? trans.__('on all %1 hosts', kernel.hosts.length)
    : trans.__('on host %1', kernel.host);
}

/** "hosts 0-2 busy, host 3 dead"; "" if all hosts of a pod kernel are in one state, or it has one. */
export function hostStates(kernel: IKernel): string {
  const { hosts, state } = kernel;
  const states = [...new Set(hosts)];
  if (state === 'dead' || states.length < 2) {
    return '';
  }
  return states
    .map(one => {
      const numbers = [...hosts.keys()].filter(host => hosts[host] === one);
      return trans._n(
        'host %2 %3',
        'hosts %2 %3',
        numbers.length,
        hostRanges(numbers),
        kernelStateLabel(one)
      );
    })
    .join(', ');
}

export function kernelCountLabel(count: number): string {
  return trans._n('%1 kernel', '%1 kernels', count);
}

/** "chip 2", "chips 2-3": those that a kernel has for itself; they are neighbors. */
export function chipsLabel(chips: ReadonlyArray<number>): string {
  return chips.length === 1
    ? trans.__('chip %1', chips[0])
    : trans.__('chips %1-%2', chips[0], chips[chips.length - 1]);
}

/** Who uses a kernel that is not this Jupyter server's. */
export function holderLabel(kernel: IKernel): string {
  const { attached, holder } = kernel;
  if (attached) {
    return trans.__('In use by %1.', holder || trans.__('another client'));
  }
  return holder
    ? trans.__('Not in use (last used by %1).', holder)
    : trans.__('Not in use.');
}

/** The path that JupyterLab gives a console, which has no file. */
const CONSOLE = /^console-(\d+)-[\da-f-]{36}$/;

/** A kernel's name for the user: its notebook's or console's, or where it runs. */
export function kernelName(kernel: IKernel): string {
  const name = PathExt.basename(kernel.notebook);
  const number = CONSOLE.exec(name)?.[1];
  return number
    ? trans.__('Console %1', number)
    : name ||
        trans.__(
          'Kernel %1 in “%2”',
          kernel.id.slice(0, 8),
          kernel.environment
        );
}

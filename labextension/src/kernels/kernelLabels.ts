// Kernels in words.

import { PathExt } from '@jupyterlab/coreutils';

import { IKernel } from '../rest/api';
import { trans } from '../ui/translation';

export function kernelStateLabel(state: string): string {
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

/** A kernel's name for the user: its notebook's, or where it runs. */
export function kernelName(kernel: IKernel): string {
  return (
    PathExt.basename(kernel.notebook) ||
    trans.__('Kernel %1 in “%2”', kernel.id.slice(0, 8), kernel.environment)
  );
}

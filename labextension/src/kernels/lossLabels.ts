// What ends or is lost with a TPU, an environment or a kernel: what is asked before.

import { jobState } from '../jobs/jobLabels';
import { IQuestion } from '../language/text';
import { trans } from '../language/translation';
import { DestructiveAction } from '../model/availableActions';
import { IJob, IKernel, ITPU } from '../rest/api';
import { kernelName, kernelStateLabel } from './kernelLabels';

/** What would end. */
export interface ILoss {
  /** Null if they are unknown: the TPU says how many there are. */
  kernels: IKernel[] | null;
  jobs?: IJob[];
  /** The name of the environment to remove. */
  environment?: string;
}

/** Kernels or jobs that end, or go on, and what that means. */
export interface IEnding {
  text: string;
  /** Those that are known. */
  items: { name: string; state: string; title: string }[];
}

/** What happens to the kernels and jobs of a TPU. */
export function endings(
  action: DestructiveAction,
  tpu: ITPU,
  { environment, jobs = [], kernels }: ILoss
): IEnding[] {
  const all: IEnding[] = [];
  const count = kernels?.length ?? tpu.kernels;
  if (environment && !kernels) {
    const text = trans.__(
      'This shuts down all kernels in it. Their variables will be lost.'
    );
    all.push({ text, items: [] });
  } else if (count > 0) {
    all.push({
      text: trans._n(
        'This shuts down %1 kernel. Its variables will be lost:',
        'This shuts down %1 kernels. Their variables will be lost:',
        count
      ),
      items: (kernels ?? []).map(kernel => ({
        name: kernelName(kernel),
        state: kernelStateLabel(kernel.state),
        title: kernel.notebook || kernel.id
      }))
    });
  }
  if (jobs.length > 0) {
    all.push({
      text:
        action === 'disconnect'
          ? trans._n('%1 job continues:', '%1 jobs continue:', jobs.length)
          : trans._n('This stops %1 job:', 'This stops %1 jobs:', jobs.length),
      items: jobs.map(job => ({
        name: job.name,
        state: jobState(job),
        title: job.command.join(' ')
      }))
    });
  }
  return all;
}

/** What is asked before something is lost, and what else that means. */
export function lossQuestion(
  action: DestructiveAction,
  { environments, name, not_yours, queued, zone }: ITPU,
  environment = ''
): IQuestion {
  const isOwn = !environments.find(one => one.name === environment)
    ?.python_path;
  return {
    delete: {
      title: trans.__('Delete %1?', name),
      accept: trans.__('Delete'),
      text:
        queued && !not_yours
          ? trans.__(
              'This permanently deletes the TPU in %1, its disk, and all environments and files on it. Its queued resource %2 is deleted, too, if it is yours.',
              zone,
              queued
            )
          : trans.__(
              'This permanently deletes the TPU in %1, its disk, and all environments and files on it.',
              zone
            )
    },
    detach: {
      title: trans.__('Detach %1?', name),
      accept: trans.__('Detach'),
      text: trans.__(
        'Its kernels are removed from Jupyter. The environments and files on the machine are kept.'
      )
    },
    disconnect: {
      title: trans.__('Disconnect %1?', name),
      accept: trans.__('Disconnect'),
      text: trans.__(
        'Its web apps close. The TPU, its environments and its files are kept.'
      )
    },
    environment: {
      title: trans.__('Remove the environment %1?', environment),
      accept: trans.__('Remove'),
      text: isOwn
        ? trans.__(
            'This removes its packages from %1, and its kernel from Jupyter. Your files are kept.',
            name
          )
        : trans.__(
            'This removes its kernel from Jupyter. The environment on %1 is kept.',
            name
          )
    },
    kernel: {
      title: trans.__('Shut down a kernel on %1?', name),
      accept: trans.__('Shut Down'),
      text: trans.__('The notebook is kept.')
    },
    stop: {
      title: trans.__('Stop %1?', name),
      accept: trans.__('Stop'),
      text: trans.__('Its disk with all environments and files is kept.')
    }
  }[action];
}

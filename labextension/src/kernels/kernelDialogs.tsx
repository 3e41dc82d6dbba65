// Questions before kernels and jobs end, or a kernel is taken over.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { jobState } from '../jobs/jobLabels';
import { trans } from '../language/translation';
import { DestructiveAction } from '../model/availableActions';
import { IEnvironment, IJob, IKernel, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { holderLabel, kernelName, kernelStateLabel } from './kernelLabels';

/**
 * Asks for confirmation, and lists the kernels and jobs that would end.
 *
 * @param what.kernels null if they are unknown
 * @param what.environment the name of the environment to remove
 */
export async function confirmDestructive(
  loss: DestructiveAction,
  tpu: ITPU,
  what: { kernels: IKernel[] | null; jobs?: IJob[]; environment?: string }
): Promise<boolean> {
  const { environment = '', jobs = [], kernels } = what;
  const { title, accept, consequence } = question(loss, tpu, environment);
  const count = kernels?.length ?? tpu.kernels;
  return confirm(
    title,
    <>
      {environment && !kernels ? (
        <p>
          {trans.__(
            'This shuts down all kernels in it. Their variables will be lost.'
          )}
        </p>
      ) : (
        <Ending
          count={count}
          text={trans._n(
            'This shuts down %1 kernel. Its variables will be lost:',
            'This shuts down %1 kernels. Their variables will be lost:',
            count
          )}
          items={(kernels ?? []).map(kernel => [
            kernelName(kernel),
            kernelStateLabel(kernel.state),
            kernel.notebook || kernel.id
          ])}
        />
      )}
      <Ending
        count={jobs.length}
        text={
          loss === 'disconnect'
            ? trans._n('%1 job continues:', '%1 jobs continue:', jobs.length)
            : trans._n('This stops %1 job:', 'This stops %1 jobs:', jobs.length)
        }
        items={jobs.map(job => [
          job.name,
          jobState(job),
          job.command.join(' ')
        ])}
      />
      <p>{consequence}</p>
    </>,
    accept
  );
}

/** How many end, and those that are known: their names, states and tooltips. */
function Ending(props: {
  count: number;
  text: string;
  items: [string, string, string][];
}) {
  const { count, items, text } = props;
  return count === 0 ? null : (
    <>
      <p>{text}</p>
      {items.length > 0 && (
        <ul>
          {items.map(([name, state, title], index) => (
            <li key={index} title={title}>
              {name} <em>{state}</em>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** What is asked before something is lost, and what else that means. */
export function question(
  loss: DestructiveAction,
  { environments, name, not_yours, queued, zone }: ITPU,
  environment = ''
): { title: string; accept: string; consequence: string } {
  const isOwn = !environments.find(one => one.name === environment)
    ?.python_path;
  return {
    delete: {
      title: trans.__('Delete %1?', name),
      accept: trans.__('Delete'),
      consequence:
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
      consequence: trans.__(
        'Its kernels are removed from Jupyter. The environments and files on the machine are kept.'
      )
    },
    disconnect: {
      title: trans.__('Disconnect %1?', name),
      accept: trans.__('Disconnect'),
      consequence: trans.__(
        'Its web apps close. The TPU, its environments and its files are kept.'
      )
    },
    environment: {
      title: trans.__('Remove the environment %1?', environment),
      accept: trans.__('Remove'),
      consequence: isOwn
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
      consequence: trans.__('The notebook is kept.')
    },
    stop: {
      title: trans.__('Stop %1?', name),
      accept: trans.__('Stop'),
      consequence: trans.__('Its disk with all environments and files is kept.')
    }
  }[loss];
}

/** Asks for confirmation to take a kernel over from its user. */
export async function confirmTakeOver(
  kernel: IKernel,
  tpu: ITPU
): Promise<boolean> {
  const { attached, holder } = kernel;
  return confirm(
    trans.__('Take over a kernel on %1?', tpu.name),
    <>
      <p title={kernel.notebook || kernel.id}>
        {kernelName(kernel)} <em>{kernelStateLabel(kernel.state)}</em>
      </p>
      <p>{holderLabel(kernel)}</p>
      <p>
        {attached
          ? trans.__(
              'They lose the kernel and are notified. Running cells continue here.'
            )
          : holder
            ? trans.__('They can no longer use it.')
            : ''}
      </p>
      <p>
        {trans.__(
          'Its variables are kept. If its notebook is on this server, it is connected to the kernel.'
        )}
      </p>
    </>,
    trans.__('Take Over'),
    { harmless: !attached }
  );
}

/** Asks on which hosts of a pod a new notebook runs: the kernel of all hosts, or of host 0. */
export async function askNotebookKernel(
  environment: IEnvironment
): Promise<string | undefined> {
  const all = Dialog.okButton({ label: trans.__('All Hosts') });
  const one = Dialog.okButton({ label: trans.__('Host 0 Only') });
  const result = await showDialog({
    title: trans.__('New Notebook on %1', environment.tpu),
    body: trans.__(
      'A notebook on all hosts runs each cell on every host, with all chips. A notebook on host 0 uses the chips of that host only.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      { ...one, className: 'jp-mod-reject' },
      all
    ],
    defaultButton: 2
  });
  if (!result.button.accept) {
    return undefined;
  }
  return result.button.label === all.label
    ? environment.pod_kernelspec
    : environment.kernelspec;
}

// Questions before kernels and jobs end, or a kernel is taken over.

import React from 'react';

import { jobState } from '../jobs/jobLabels';
import { IJob, IKernel, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { trans } from '../ui/translation';
import { holderLabel, kernelName, kernelStateLabel } from './kernelLabels';

/** Actions after which something is lost. */
export type DestructiveAction =
  'delete' | 'detach' | 'disconnect' | 'environment' | 'kernel' | 'stop';

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
  const { title, accept, consequence } = words(loss, tpu, environment);
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
        <Kernels kernels={kernels} count={tpu.kernels} />
      )}
      <Jobs jobs={jobs} continues={loss === 'disconnect'} />
      <p>{consequence}</p>
    </>,
    accept
  );
}

function Kernels(props: { kernels: IKernel[] | null; count: number }) {
  const { kernels } = props;
  const count = kernels?.length ?? props.count;
  if (count === 0) {
    return null;
  }
  return (
    <>
      <p>
        {trans._n(
          'This shuts down %1 kernel. Its variables will be lost:',
          'This shuts down %1 kernels. Their variables will be lost:',
          count
        )}
      </p>
      {kernels && (
        <ul>
          {kernels.map(kernel => (
            <li key={kernel.id} title={kernel.notebook || kernel.id}>
              {kernelName(kernel)} <em>{kernelStateLabel(kernel.state)}</em>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Jobs({ continues, jobs }: { jobs: IJob[]; continues: boolean }) {
  const count = jobs.length;
  if (count === 0) {
    return null;
  }
  return (
    <>
      <p>
        {continues
          ? trans._n('%1 job continues:', '%1 jobs continue:', count)
          : trans._n('This stops %1 job:', 'This stops %1 jobs:', count)}
      </p>
      <ul>
        {jobs.map(job => (
          <li key={job.id} title={job.command.join(' ')}>
            {job.name} <em>{jobState(job)}</em>
          </li>
        ))}
      </ul>
    </>
  );
}

function words(
  loss: DestructiveAction,
  tpu: ITPU,
  environment: string
): { title: string; accept: string; consequence: string } {
  switch (loss) {
    case 'delete':
      return {
        title: trans.__('Delete %1?', tpu.name),
        accept: trans.__('Delete'),
        consequence:
          tpu.queued && !tpu.not_yours
            ? trans.__(
                'This permanently deletes the TPU in %1, its disk, and all environments and files on it. Its queued resource %2 is deleted, too, if it is yours.',
                tpu.zone,
                tpu.queued
              )
            : trans.__(
                'This permanently deletes the TPU in %1, its disk, and all environments and files on it.',
                tpu.zone
              )
      };
    case 'detach':
      return {
        title: trans.__('Detach %1?', tpu.name),
        accept: trans.__('Detach'),
        consequence: trans.__(
          'Its kernels are removed from Jupyter. The environments and files on the machine are kept.'
        )
      };
    case 'disconnect':
      return {
        title: trans.__('Disconnect %1?', tpu.name),
        accept: trans.__('Disconnect'),
        consequence: trans.__(
          'Its web apps close. The TPU, its environments and its files are kept.'
        )
      };
    case 'environment':
      return {
        title: trans.__('Remove the environment %1?', environment),
        accept: trans.__('Remove'),
        consequence: tpu.environments.find(one => one.name === environment)
          ?.python_path
          ? trans.__(
              'This removes its kernel from Jupyter. The environment on %1 is kept.',
              tpu.name
            )
          : trans.__(
              'This removes its packages from %1, and its kernel from Jupyter. Your files are kept.',
              tpu.name
            )
      };
    case 'kernel':
      return {
        title: trans.__('Shut down a kernel on %1?', tpu.name),
        accept: trans.__('Shut Down'),
        consequence: trans.__('The notebook is kept.')
      };
    case 'stop':
      return {
        title: trans.__('Stop %1?', tpu.name),
        accept: trans.__('Stop'),
        consequence: trans.__(
          'Its disk with all environments and files is kept.'
        )
      };
  }
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

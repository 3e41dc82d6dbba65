// What uses the chips of a TPU, and how they are freed after a question.

import { PathExt } from '@jupyterlab/coreutils';
import React from 'react';

import { facts, joined } from '../language/text';
import { clock, trans } from '../language/translation';
import { chipShares, startableEnvironments } from '../model/availableActions';
import { TPUModel } from '../model/model';
import {
  IChipHolder,
  IChipKernels,
  IChipUse,
  IFreedChips,
  IHostChips,
  ITPU
} from '../rest/api';
import { confirm, show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';
import { waitToEnd } from '../ui/wait';

/** Shows what uses the chips of all hosts, and ends it if the user agrees. */
export async function freeChips(tpu: ITPU, model: TPUModel): Promise<void> {
  const use = await waitToEnd(
    trans.__('Checking the chips of %1', tpu.name),
    model.client.chips.list(tpu)
  );
  if (!use) {
    return;
  }
  const holders = holdersOf(use);
  const locks = use.hosts.filter(({ lock_owner }) => lock_owner);
  if (holders.length + locks.length === 0) {
    await show(trans.__('Chips of %1', tpu.name), <Use use={use} />);
    return;
  }
  const agreed = await confirm(
    trans.__('Free the chips of %1?', tpu.name),
    <Use use={use} />,
    holders.length > 0 ? trans.__('Stop All') : trans.__('Delete')
  );
  if (!agreed) {
    return;
  }
  const freed = await waitToEnd(
    trans.__('Freeing the chips of %1', tpu.name),
    model.client.chips.free(tpu, {
      holders: holders.map(({ host, pid, start }) => ({ host, pid, start })),
      // What ends may leave a lock file.
      locks: [...new Set([...holders, ...locks].map(({ host }) => host))]
    })
  );
  if (freed?.free) {
    notify.success(trans.__('The chips of %1 are free.', tpu.name));
  } else if (freed) {
    notify.error(notFreed(tpu, freed));
  }
}

/** Asks how many chips each notebook gets, and offers kernels for that. */
export async function splitChips(tpu: ITPU, model: TPUModel): Promise<void> {
  const [environment] = startableEnvironments(tpu);
  const shares = chipShares(tpu);
  let offered: IChipKernels | undefined;
  await ask<{ share: number }>({
    title: trans.__('Split the Chips of %1', tpu.name),
    accept: trans.__('Offer'),
    initial: { share: shares[0] ?? 0 },
    fields: () => [
      {
        name: 'share',
        label: trans.__(
          'Several notebooks can share a host if each kernel has chips of its own. Which kernels should Jupyter offer?'
        ),
        kind: 'select',
        choices: [
          ...shares.map(
            count =>
              [
                count,
                trans._n('One chip for each', '%1 chips for each', count)
              ] as const
          ),
          [0, trans.__('All chips for one kernel')]
        ]
      }
    ],
    submit: async ({ share }) => {
      const request = { environment: environment.name, each: share };
      offered = await model.client.chipKernels.split(tpu, request);
    }
  });
  if (offered) {
    model.kernelspecsChanged.emit();
    await show(
      trans.__('Kernels for Chips of %1', tpu.name),
      <Offered offered={offered} />
    );
  }
}

function Offered({ offered }: { offered: IChipKernels }) {
  if (offered.kernels.length === 0) {
    return <p>{trans.__('Jupyter offers the kernel for all chips only.')}</p>;
  }
  return (
    <>
      <p>
        {trans.__(
          'In addition to the kernel for all chips, Jupyter now offers:'
        )}
      </p>
      <ul>
        {offered.kernels.map(kernel => (
          <li key={kernel.kernelspec}>{kernel.display_name}</li>
        ))}
      </ul>
      <p>{offered.note}</p>
    </>
  );
}

function holdersOf(use: IChipUse): IChipHolder[] {
  return use.hosts.flatMap(host => host.holders);
}

function Use({ use }: { use: IChipUse }) {
  const holders = holdersOf(use);
  const many = use.hosts.length > 1;
  return (
    <>
      {holders.length === 0 && use.hosts.every(isSeen) && (
        <p>{trans.__('No process uses the chips.')}</p>
      )}
      {holders.length > 0 && (
        <>
          <p>{trans.__('This stops the programs that use the chips:')}</p>
          <ul>
            {holders.map(holder => (
              <li key={`${holder.host} ${holder.pid}`} title={holder.command}>
                {many && <em>{trans.__('Host %1:', holder.host)} </em>}
                {holderName(holder)}
                <p>{details(holder)}</p>
              </li>
            ))}
          </ul>
          {holders.some(holder => holder.kernel) && (
            <p>{trans.__('The variables of kernels will be lost.')}</p>
          )}
        </>
      )}
      {[...leftOver(use), ...unseen(use)].map(line => (
        <p key={line}>{line}</p>
      ))}
    </>
  );
}

/** Whether all of the host's processes could be seen. */
function isSeen({ problem, complete }: IHostChips): boolean {
  return !problem && complete;
}

/** The lock files of libtpu that are in the way. */
function leftOver(use: IChipUse): string[] {
  return use.hosts
    .filter(({ lock_owner }) => lock_owner)
    .map(({ host, lock_owner }) => {
      const where =
        use.hosts.length > 1 ? `${trans.__('Host %1:', host)} ` : '';
      const what = trans.__(
        '%1 left a libtpu lock file. It blocks your programs. It is deleted if no process uses it.',
        lock_owner
      );
      return where + what;
    });
}

/** What a process belongs to, or its command. */
function holderName(holder: IChipHolder): string {
  if (holder.kernel) {
    return holder.notebook
      ? trans.__('Kernel of %1', PathExt.basename(holder.notebook))
      : trans.__('Kernel %1', holder.kernel.slice(0, 8));
  }
  if (holder.job) {
    return trans.__('Job %1', holder.job);
  }
  if (holder.run) {
    return trans.__('Command: %1', holder.command);
  }
  // A kernel of a Jupyter server that is not this one, such as one on the host.
  return holder.notebook
    ? trans.__('Another Jupyter server: %1', holder.notebook)
    : holder.command || trans.__('Another program');
}

function details(holder: IChipHolder): string {
  const { container, pid, since, stop, user } = holder;
  const about = facts(
    trans.__('Process %1 of %2', pid, user),
    container === '?'
      ? trans.__('in a container')
      : container && trans.__('in the container %1', container),
    since && trans.__('since %1', clock(since))
  );
  return stop
    ? trans.__('%1. This stops the container on the host: %2', about, stop)
    : about;
}

/** What is not known of the hosts. */
function unseen(use: IChipUse): string[] {
  const lines = use.hosts
    .filter(host => host.problem)
    .map(host =>
      trans.__('Host %1 did not answer: %2', host.host, host.problem!.message)
    );
  if (use.hosts.some(host => !host.complete)) {
    lines.push(
      trans.__(
        'Programs of other users and of containers can’t be seen, because sudo asks for a password on the hosts.'
      )
    );
  }
  return lines;
}

function notFreed(tpu: ITPU, freed: IFreedChips): string {
  return joined(
    ' ',
    trans.__('The chips of %1 may still be in use.', tpu.name),
    ...holdersOf(freed.use).map(
      holder => `${holderName(holder)} (${details(holder)})`
    ),
    ...freed.ended.map(process => process.problem?.message),
    ...leftOver(freed.use),
    ...unseen(freed.use)
  );
}

// Dialogs: questions before something is lost, and what an action needs to know.

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { ShareSteps } from '../files/shareSteps';
import { Example, exampleTitles } from '../kernels/examples';
import {
  IApp,
  IEnvironment,
  IJob,
  IMachineHost,
  IQueuedResource,
  IShareResult,
  ITPU
} from '../rest/api';
import { confirm, show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';

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

/** Asks for confirmation to stop a job. */
export async function confirmStopJob(job: IJob): Promise<boolean> {
  return confirm(
    trans.__('Stop %1?', job.name),
    trans.__(
      'The command and its processes are sent SIGTERM and, after 10 seconds, SIGKILL. The output is kept.'
    ),
    trans.__('Stop')
  );
}

/** Asks whether host keys that the known hosts do not have are those of the machines. */
export async function confirmHostKeys(
  machines: readonly IMachineHost[]
): Promise<boolean> {
  return confirm(
    trans._n(
      'Is this the host key of %2?',
      'Are these the host keys of %1 machines?',
      machines.length,
      machines[0].ssh
    ),
    <>
      <p>
        {trans._n(
          'This machine is not in your known hosts. Compare the fingerprint with the output of ssh-keygen -lf on the machine:',
          'These machines are not in your known hosts. Compare each fingerprint with the output of ssh-keygen -lf on the machine:',
          machines.length
        )}
      </p>
      {machines.map(({ address, host_key, port, ssh, user }) => (
        <p key={ssh}>
          {`${ssh} (${user}@${address}:${port})`}
          <br />
          <code>{host_key}</code>
        </p>
      ))}
    </>,
    trans.__('Trust and Attach')
  );
}

/** Asks for confirmation to remove a job that has ended. */
export async function confirmRemoveJob(job: IJob): Promise<boolean> {
  return confirm(
    trans.__('Remove %1?', job.name),
    trans.__('Its output on the hosts will be deleted.'),
    trans.__('Remove')
  );
}

/** Asks for confirmation to delete a queued resource. */
export async function confirmDeleteQueued(
  queued: IQueuedResource
): Promise<boolean> {
  return confirm(
    trans.__('Delete the queued resource %1?', queued.name),
    queued.has_tpus
      ? trans.__(
          'Its TPUs will be deleted, too, with everything on their disks: %1.',
          queued.tpus.join(', ')
        )
      : trans.__('It is removed from Google’s queue.'),
    trans.__('Delete')
  );
}

/** Asks for confirmation to cancel the creation of a TPU. */
export async function confirmCancelCreate(tpu: string): Promise<boolean> {
  return confirm(
    trans.__('Stop creating %1?', tpu),
    trans.__('Everything created so far is deleted.'),
    trans.__('Stop Creating'),
    { cancel: trans.__('Continue') }
  );
}

/** Asks for confirmation to install ipykernel into a Python of the user's. */
export async function confirmInstallIpykernel(
  path: string,
  tpu: string
): Promise<boolean> {
  return confirm(
    trans.__('Install ipykernel?'),
    trans.__(
      'Kernels need ipykernel, which is not installed in %1 on %2. Installed packages are not changed.',
      path,
      tpu
    ),
    trans.__('Install'),
    { harmless: true }
  );
}

/** Asks for confirmation to close TensorBoard, which ends it on the host. */
export async function confirmCloseTensorBoard(app: IApp): Promise<boolean> {
  return confirm(
    trans.__('Close %1?', app.name),
    trans.__('TensorBoard stops on the host. Your logs are kept.'),
    trans.__('Close')
  );
}

/** Asks for confirmation to close a tunnel that is in use. */
export function confirmCloseTunnel(
  port: number,
  connections: number
): Promise<boolean> {
  return confirm(
    trans.__('Close the tunnel to port %1?', port),
    trans._n(
      'This ends %1 connection.',
      'This ends %1 connections.',
      connections
    ),
    trans.__('Close')
  );
}

/** Shows what sharing a folder changes, or why it can't be shared; whether to do it. */
export async function confirmShare({
  hosts,
  path,
  request
}: IShareResult): Promise<boolean> {
  const steps = <ShareSteps hosts={hosts} />;
  if (hosts.some(host => host.problem)) {
    await show(trans.__('%1 can’t be shared', path), steps);
    return false;
  }
  return confirm(
    request.remove
      ? trans.__('Stop sharing %1?', path)
      : trans.__('Share %1?', path),
    <>
      <p>
        {request.remove
          ? trans.__('Its files stay on host 0. This changes the hosts:')
          : trans.__('This changes the hosts:')}
      </p>
      {steps}
    </>,
    request.remove ? trans.__('Stop Sharing') : trans.__('Share'),
    { harmless: !request.remove }
  );
}

/** Asks which example notebook to open. */
export async function askExample(tpu: ITPU): Promise<Example | undefined> {
  const examples = exampleTitles();
  const asked = await ask({
    title: trans.__('Open an Example on %1', tpu.name),
    accept: trans.__('Open'),
    initial: { example: examples[0][0] },
    fields: () => [
      {
        name: 'example',
        label: trans.__('The notebook is copied to your files.'),
        kind: 'select',
        choices: examples
      }
    ]
  });
  return asked?.example;
}

/** Asks for TensorBoard's log folder. */
export async function askLogdir(tpu: ITPU): Promise<string | null> {
  const asked = await ask({
    title: trans.__('TensorBoard on %1', tpu.name),
    accept: trans.__('Open'),
    initial: { logdir: '~/runs' },
    fields: () => [
      {
        name: 'logdir',
        label: trans.__('Log folder on host 0, or gs://bucket/folder'),
        kind: 'path',
        place: { tpu, folder: true },
        required: true
      }
    ]
  });
  return asked?.logdir.trim() || null;
}

/**
 * Asks for the name of what belongs to another person, before something is done to it: "" where it
 * does not, null if the user does not want it. The server compares it.
 */
export async function askName(
  { name, not_yours, owner }: Pick<ITPU, 'name' | 'not_yours' | 'owner'>,
  title: string,
  okLabel: string
): Promise<string | null> {
  if (!not_yours) {
    return '';
  }
  const result = await InputDialog.getText({
    title,
    label: trans.__('%1 belongs to %2. To continue, type “%1”.', name, owner),
    okLabel,
    required: true
  });
  return result.button.accept ? (result.value ?? '').trim() : null;
}

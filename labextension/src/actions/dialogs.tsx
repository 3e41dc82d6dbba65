// Dialogs: questions before something is lost, and what an action needs to know.

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import {
  IApp,
  IHuntCandidate,
  IJob,
  IKernel,
  IMachineCheck,
  IQueuedResource,
  IQuote,
  IShareResult,
  ITPU,
  ITunnel
} from '../api';
import { Example, exampleTitles } from '../examples';
import { jobState } from '../labels/jobs';
import { kernelStateLabel } from '../labels/tpus';
import { ShareSteps } from '../panel/shares';
import { Price } from '../price';

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
  what: { kernels: IKernel[] | null; jobs?: IJob[]; environment?: string },
  trans: TranslationBundle
): Promise<boolean> {
  const { environment = '', jobs = [], kernels } = what;
  const { title, accept, consequence } = words(loss, tpu, trans, environment);
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
        <Kernels kernels={kernels} count={tpu.kernels} trans={trans} />
      )}
      <Jobs jobs={jobs} continues={loss === 'disconnect'} trans={trans} />
      <p>{consequence}</p>
    </>,
    Dialog.warnButton({ label: accept }),
    trans
  );
}

function Kernels(props: {
  kernels: IKernel[] | null;
  count: number;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { kernels, trans } = props;
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
              {kernelName(kernel, trans)}{' '}
              <em>{kernelStateLabel(kernel.state, trans)}</em>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Jobs(props: {
  jobs: IJob[];
  continues: boolean;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { continues, jobs, trans } = props;
  const count = jobs.length;
  if (count === 0) {
    return null;
  }
  return (
    <>
      <p>
        {continues
          ? trans._n('%1 job continues:', '%1 jobs continue:', count)
          : trans._n('This ends %1 job:', 'This ends %1 jobs:', count)}
      </p>
      <ul>
        {jobs.map(job => (
          <li key={job.id} title={job.command.join(' ')}>
            {job.name} <em>{jobState(job, trans)}</em>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Asks for confirmation to stop a job. */
export async function confirmStopJob(
  job: IJob,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Stop %1?', job.name),
    <p>
      {trans.__(
        'The command and all that it started get SIGTERM, and after 10 seconds SIGKILL. The output is kept.'
      )}
    </p>,
    Dialog.warnButton({ label: trans.__('Stop') }),
    trans
  );
}

/** Asks whether a host key that the known hosts do not have is the machine's. */
export async function confirmHostKey(
  machine: IMachineCheck,
  trans: TranslationBundle
): Promise<boolean> {
  const { address, host_key, port, ssh, user } = machine;
  return confirm(
    trans.__('Is this the host key of %1?', ssh),
    <>
      <p>
        {trans.__(
          'Your known hosts do not have %1. Compare this fingerprint with the one that ssh-keygen -lf prints on the machine:',
          `${user}@${address}:${port}`
        )}
      </p>
      <p>
        <code>{host_key}</code>
      </p>
    </>,
    Dialog.warnButton({ label: trans.__('Trust and Attach') }),
    trans
  );
}

/** Asks for confirmation to remove a job that has ended. */
export async function confirmRemoveJob(
  job: IJob,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Remove %1?', job.name),
    <p>{trans.__('Its output on the hosts will be deleted.')}</p>,
    Dialog.warnButton({ label: trans.__('Remove') }),
    trans
  );
}

/** Asks for confirmation to delete a queued resource. */
export async function confirmDeleteQueued(
  queued: IQueuedResource,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Delete the queued resource %1?', queued.name),
    <p>
      {queued.has_tpus
        ? trans.__(
            'Its TPUs will be deleted, too, with everything on their disks: %1.',
            queued.tpus.join(', ')
          )
        : trans.__('Google no longer looks for room for its TPUs.')}
    </p>,
    Dialog.warnButton({ label: trans.__('Delete') }),
    trans
  );
}

/** Asks for confirmation to create a TPU that costs money. */
export async function confirmCost(
  quote: IQuote,
  trans: TranslationBundle
): Promise<boolean> {
  const { cost, meaning, name, tier, type, zone } = quote;
  return confirm(
    trans.__('Create %1?', name),
    <>
      <p>
        {type} · {zone}
        {meaning && (
          <>
            <br />
            {meaning}
          </>
        )}
      </p>
      <p>
        <Price cost={cost} tier={tier} trans={trans} />
      </p>
      {quote.uncovered && <p>{quote.uncovered}</p>}
      {quote.warning && <p>{quote.warning}</p>}
      <p>
        {trans.__('You pay while it is ready, used or not.')}{' '}
        {tier === 'spot'
          ? trans.__('Google can preempt it at any time.')
          : quote.hosts > 1
            ? trans.__('Delete it to stop paying.')
            : trans.__('Stop or delete it to stop paying.')}
      </p>
    </>,
    Dialog.okButton({ label: trans.__('Create') }),
    trans
  );
}

/** Asks for confirmation of the prices of all that a hunt may create. */
export async function confirmHuntCost(
  name: string,
  candidates: IHuntCandidate[],
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Hunt for %1?', name),
    <>
      <p>{trans.__('The first of these that is available is created:')}</p>
      <ul>
        {candidates.map(one => (
          <li key={`${one.type} ${one.zone} ${one.tier}`}>
            {one.type} · {one.zone}:{' '}
            <Price cost={one.cost} tier={one.tier} trans={trans} />
          </li>
        ))}
      </ul>
      <p>{trans.__('You pay while it is ready, used or not.')}</p>
    </>,
    Dialog.okButton({ label: trans.__('Start Hunt') }),
    trans
  );
}

/** Asks for confirmation to start a TPU, which is billed from then on. */
export async function confirmStart(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Start %1?', tpu.name),
    <>
      <p>
        <Price cost={tpu.cost} tier={tpu.tier} trans={trans} />
      </p>
      {tpu.cost.usd_per_hour !== 0 && (
        <p>{trans.__('You pay while it is ready, used or not.')}</p>
      )}
    </>,
    Dialog.okButton({ label: trans.__('Start') }),
    trans
  );
}

/** Asks for confirmation to cancel the creation of a TPU. */
export async function confirmCancelCreate(
  tpu: string,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Stop creating %1?', tpu),
    <p>{trans.__('What was created of it is deleted.')}</p>,
    Dialog.warnButton({ label: trans.__('Stop Creating') }),
    trans,
    trans.__('Continue')
  );
}

/** Asks for confirmation to install ipykernel into a Python of the user's. */
export async function confirmInstallIpykernel(
  path: string,
  tpu: string,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Install ipykernel?'),
    <p>
      {trans.__(
        'Kernels need ipykernel, which is not installed in %1 on %2. The packages that are there stay as they are.',
        path,
        tpu
      )}
    </p>,
    Dialog.okButton({ label: trans.__('Install') }),
    trans
  );
}

/** Asks for confirmation to close TensorBoard, which ends it on the host. */
export async function confirmCloseTensorBoard(
  app: IApp,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Close %1?', app.name),
    <p>{trans.__('TensorBoard stops on the host. Your logs are kept.')}</p>,
    Dialog.warnButton({ label: trans.__('Close') }),
    trans
  );
}

/** Asks for confirmation to close a tunnel that is in use. */
export async function confirmCloseTunnel(
  tunnel: ITunnel,
  trans: TranslationBundle
): Promise<boolean> {
  return confirm(
    trans.__('Close the tunnel to port %1?', tunnel.port),
    <p>
      {trans._n(
        'This ends %1 connection.',
        'This ends %1 connections.',
        tunnel.connections
      )}
    </p>,
    Dialog.warnButton({ label: trans.__('Close') }),
    trans
  );
}

/** Shows what sharing a folder changes, or why it can't be shared; whether to do it. */
export async function confirmShare(
  { hosts, path, request }: IShareResult,
  trans: TranslationBundle
): Promise<boolean> {
  const steps = <ShareSteps hosts={hosts} trans={trans} />;
  if (hosts.some(host => host.problem)) {
    await showDialog({
      title: trans.__("%1 can't be shared", path),
      body: <div className="jp-tpu-Dialog">{steps}</div>,
      buttons: [Dialog.okButton({ label: trans.__('Close') })]
    });
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
    request.remove
      ? Dialog.warnButton({ label: trans.__('Stop Sharing') })
      : Dialog.okButton({ label: trans.__('Share') }),
    trans
  );
}

/** Asks a question that Enter alone answers with no. */
async function confirm(
  title: string,
  body: JSX.Element,
  accept: Dialog.IButton,
  trans: TranslationBundle,
  cancel = trans.__('Cancel')
): Promise<boolean> {
  const result = await showDialog({
    title,
    body: <div className="jp-tpu-Dialog">{body}</div>,
    defaultButton: 0,
    buttons: [Dialog.cancelButton({ label: cancel }), accept]
  });
  return result.button.accept;
}

/** Asks for confirmation to keep a TPU that should have been deleted. */
export async function confirmKeep(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<boolean> {
  const { cost, name, tier } = tpu;
  const result = await showDialog({
    title: trans.__('Stop trying to delete %1?', name),
    body: (
      <div className="jp-tpu-Dialog">
        <p>{trans.__('%1 is not deleted, and stays.', name)}</p>
        {cost.usd_per_hour !== 0 && tpu.state !== 'STOPPED' && (
          <p>
            {trans.__('You keep paying for it:')}{' '}
            <Price cost={cost} tier={tier} trans={trans} />
          </p>
        )}
      </div>
    ),
    // Enter alone must not spend anything.
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Stop Trying') })
    ]
  });
  return result.button.accept;
}

/** Asks for confirmation to take a kernel over from its user. */
export async function confirmTakeOver(
  kernel: IKernel,
  tpu: ITPU,
  trans: TranslationBundle
): Promise<boolean> {
  const { attached, holder } = kernel;
  return confirm(
    trans.__('Take over a kernel on %1?', tpu.name),
    <>
      <p title={kernel.notebook || kernel.id}>
        {kernelName(kernel, trans)}{' '}
        <em>{kernelStateLabel(kernel.state, trans)}</em>
      </p>
      <p>{holderLabel(kernel, trans)}</p>
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
    (attached ? Dialog.warnButton : Dialog.okButton)({
      label: trans.__('Take Over')
    }),
    trans
  );
}

/** Who uses a kernel that is not this Jupyter server's. */
export function holderLabel(kernel: IKernel, trans: TranslationBundle): string {
  const { attached, holder } = kernel;
  if (attached) {
    return trans.__('In use by %1.', holder || trans.__('another client'));
  }
  return holder
    ? trans.__('Not in use (last used by %1).', holder)
    : trans.__('Not in use.');
}

/** A kernel's name for the user: its notebook's, or where it runs. */
export function kernelName(kernel: IKernel, trans: TranslationBundle): string {
  return (
    PathExt.basename(kernel.notebook) ||
    trans.__('Kernel %1 in “%2”', kernel.id.slice(0, 8), kernel.environment)
  );
}

function words(
  loss: DestructiveAction,
  tpu: ITPU,
  trans: TranslationBundle,
  environment: string
): { title: string; accept: string; consequence: string } {
  switch (loss) {
    case 'delete':
      return {
        title: trans.__('Delete %1?', tpu.name),
        accept: trans.__('Delete'),
        consequence: trans.__(
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

/** Asks which example notebook to open. */
export async function askExample(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<Example | undefined> {
  const examples = exampleTitles(trans);
  const result = await InputDialog.getItem({
    title: trans.__('Open an example on %1', tpu.name),
    label: trans.__('The notebook is copied to your files.'),
    items: examples.map(([, title]) => title),
    okLabel: trans.__('Open')
  });
  const chosen = result.button.accept ? result.value : null;
  return examples.find(([, title]) => title === chosen)?.[0];
}

/** Asks for TensorBoard's log folder. */
export async function askLogdir(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<string | null> {
  const result = await InputDialog.getText({
    title: trans.__('TensorBoard on %1', tpu.name),
    label: trans.__('Log folder on host 0, or gs://bucket/folder'),
    text: '~/runs',
    okLabel: trans.__('Open'),
    required: true
  });
  return (result.button.accept && result.value?.trim()) || null;
}

/** Asks for how many seconds to trace a kernel. */
export async function askSeconds(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<number | null> {
  const result = await InputDialog.getNumber({
    title: trans.__('Trace a kernel on %1', tpu.name),
    label: trans.__(
      'Duration in seconds. Run the cell to trace during this time.'
    ),
    value: 3,
    okLabel: trans.__('Trace')
  });
  return result.button.accept ? result.value : null;
}

/**
 * Asks for the name of what belongs to somebody else, before something is done to it: "" where it
 * does not, null if the user does not want it. The server compares it.
 */
export async function askName(
  { name, not_yours, owner }: Pick<ITPU, 'name' | 'not_yours' | 'owner'>,
  title: string,
  okLabel: string,
  trans: TranslationBundle
): Promise<string | null> {
  if (!not_yours) {
    return '';
  }
  const result = await InputDialog.getText({
    title,
    label: trans.__('%1 belongs to %2. To go on, type its name.', name, owner),
    okLabel,
    required: true
  });
  return result.button.accept ? (result.value ?? '').trim() : null;
}

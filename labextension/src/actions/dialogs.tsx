// Questions before something is lost.

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { IKernel, IOpenTunnel, ITPU } from '../api';

/** What would be lost. */
export type DestructiveAction = 'delete' | 'disconnect' | 'kernel' | 'stop';

/**
 * Asks whether to go on, naming the kernels that would end.
 *
 * @param kernels those that run there; empty if none do, null if they could not be asked for
 */
export async function confirmDestructive(
  loss: DestructiveAction,
  tpu: ITPU,
  kernels: IKernel[] | null,
  trans: TranslationBundle
): Promise<boolean> {
  const { title, accept, consequence } = words(loss, tpu, trans);
  const result = await showDialog({
    title,
    body: (
      <div className="jp-tpu-Dialog">
        <Kernels kernels={kernels} count={tpu.kernels} trans={trans} />
        <p>{consequence}</p>
      </div>
    ),
    // Enter alone must not lose anything.
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: accept })
    ]
  });
  return result.button.accept;
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
          'This ends %1 kernel, and what its variables hold is gone:',
          'This ends %1 kernels, and what their variables hold is gone:',
          count
        )}
      </p>
      {kernels && (
        <ul>
          {kernels.map(kernel => (
            <li key={kernel.id} title={kernel.notebook || kernel.id}>
              {kernelName(kernel, trans)} <em>{kernel.state}</em>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Asks whether to take a kernel over, saying what who has it loses. */
export async function confirmTakeOver(
  kernel: IKernel,
  tpu: ITPU,
  trans: TranslationBundle
): Promise<boolean> {
  const { attached, holder } = kernel;
  const result = await showDialog({
    title: trans.__('Take over a kernel on %1?', tpu.name),
    body: (
      <div className="jp-tpu-Dialog">
        <p title={kernel.notebook || kernel.id}>
          {kernelName(kernel, trans)} <em>{kernel.state}</em>
        </p>
        <p>{holderLabel(kernel, trans)}</p>
        <p>
          {attached
            ? trans.__(
                'That one loses it, and is told so. What runs in it goes on, for you to see here; nothing more can be run in it from there.'
              )
            : holder
              ? trans.__(
                  'That one, if it comes back, does not get it any more.'
                )
              : ''}
        </p>
        <p>
          {trans.__(
            'All that it computed stays. If its notebook is in this server’s folder, that gets the kernel.'
          )}
        </p>
      </div>
    ),
    // Enter alone must not take anything from anybody.
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      (attached ? Dialog.warnButton : Dialog.okButton)({
        label: trans.__('Take Over')
      })
    ]
  });
  return result.button.accept;
}

/** Who has a kernel that this Jupyter server does not have. */
export function holderLabel(kernel: IKernel, trans: TranslationBundle): string {
  const { attached, holder } = kernel;
  if (attached) {
    return trans.__('Held by %1.', holder || trans.__('another client'));
  }
  return holder
    ? trans.__('Held by nobody (was %1).', holder)
    : trans.__('Held by nobody.');
}

/** What a user knows a kernel by: its notebook, else where it runs. */
export function kernelName(kernel: IKernel, trans: TranslationBundle): string {
  return (
    PathExt.basename(kernel.notebook) ||
    trans.__('Kernel %1 in “%2”', kernel.id.slice(0, 8), kernel.environment)
  );
}

function words(
  loss: DestructiveAction,
  tpu: ITPU,
  trans: TranslationBundle
): { title: string; accept: string; consequence: string } {
  switch (loss) {
    case 'delete':
      return {
        title: trans.__('Delete %1?', tpu.name),
        accept: trans.__('Delete'),
        consequence: trans.__(
          'The TPU in %1, its disk, and all environments and files on it are gone for good.',
          tpu.zone
        )
      };
    case 'disconnect':
      return {
        title: trans.__('Disconnect %1?', tpu.name),
        accept: trans.__('Disconnect'),
        consequence: trans.__(
          'The TPU itself, its environments and its files stay.'
        )
      };
    case 'kernel':
      return {
        title: trans.__('Shut down a kernel on %1?', tpu.name),
        accept: trans.__('Shut Down'),
        consequence: trans.__('The notebook itself stays.')
      };
    case 'stop':
      return {
        title: trans.__('Stop %1?', tpu.name),
        accept: trans.__('Stop'),
        consequence: trans.__(
          'The disk with its environments and files stays, for the next start.'
        )
      };
  }
}

/**
 * Asks for a port of a host, and for the host where there are several.
 *
 * A tunnel's may be given a port of this machine: "6006:7007".
 */
export async function askPort(
  what: 'app' | 'tunnel',
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IOpenTunnel | null> {
  const tunnel = what === 'tunnel';
  const several = tpu.hosts.length > 1;
  const result = await InputDialog.getText({
    title: tunnel
      ? trans.__('New tunnel to %1', tpu.name)
      : trans.__('Open a port of %1', tpu.name),
    label: tunnel
      ? trans.__('Port of the host; 6006:7007 for port 7007 of this machine')
      : trans.__('Port at which a host serves a web page'),
    placeholder: '6006',
    okLabel: trans.__('Open'),
    pattern: tunnel
      ? '\\s*\\d{1,5}(\\s*:\\s*\\d{1,5})?\\s*'
      : '\\s*\\d{1,5}\\s*',
    required: true
  });
  const found =
    result.button.accept && result.value && parsePorts(result.value);
  if (!found) {
    return null;
  }
  let host = 0;
  if (several) {
    const items = tpu.hosts.map(one => trans.__('Host %1', one.index));
    const chosen = await InputDialog.getItem({
      title: trans.__('Which host of %1?', tpu.name),
      items
    });
    if (!chosen.button.accept) {
      return null;
    }
    host = Math.max(0, items.indexOf(chosen.value ?? ''));
  }
  return { port: found.port, local_port: found.local ?? null, host };
}

/** Asks for the folder that TensorBoard is to show. */
export async function askLogdir(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<string | null> {
  const result = await InputDialog.getText({
    title: trans.__('TensorBoard on %1', tpu.name),
    label: trans.__('Folder with the logs, on host 0 (or gs://bucket/folder)'),
    text: '~/runs',
    okLabel: trans.__('Open'),
    required: true
  });
  return (result.button.accept && result.value?.trim()) || null;
}

/** Asks how long a kernel is to be traced. */
export async function askSeconds(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<number | null> {
  const result = await InputDialog.getNumber({
    title: trans.__('Trace a kernel on %1', tpu.name),
    label: trans.__('Seconds; run the cell that is to be traced meanwhile'),
    value: 3,
    okLabel: trans.__('Trace')
  });
  return result.button.accept ? result.value : null;
}

/** Reads "6006" or "6006:7007", a remote and a local port; null for anything else. */
export function parsePorts(
  text: string
): { port: number; local?: number } | null {
  const found = /^\s*(\d{1,5})(?:\s*:\s*(\d{1,5}))?\s*$/.exec(text);
  if (!found) {
    return null;
  }
  const port = Number(found[1]);
  const local = found[2] === undefined ? undefined : Number(found[2]);
  const all = local === undefined ? [port] : [port, local];
  return all.every(one => one >= 1 && one <= 65535) ? { port, local } : null;
}

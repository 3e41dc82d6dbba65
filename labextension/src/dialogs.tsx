// Questions before something is lost.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { IKernel, ITPU } from './api';

/** What would be lost. */
export type Loss = 'delete' | 'disconnect' | 'kernel' | 'stop';

/**
 * Asks whether to go on, naming the kernels that would end.
 *
 * @param kernels those that run there; empty if none do, null if they could not be asked for
 */
export async function confirmLoss(
  loss: Loss,
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

/** What a user knows a kernel by: its notebook, else where it runs. */
export function kernelName(kernel: IKernel, trans: TranslationBundle): string {
  return (
    PathExt.basename(kernel.notebook) ||
    trans.__('Kernel %1 in “%2”', kernel.id.slice(0, 8), kernel.environment)
  );
}

function words(
  loss: Loss,
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

// Questions before kernels and jobs end, or a kernel is taken over.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { trans } from '../language/translation';
import { DestructiveAction } from '../model/availableActions';
import { IConsequences, IEnvironment, IKernel, ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { holderLabel, kernelName, kernelStateLabel } from './kernelLabels';
import { endings, ILoss, lossQuestion } from './lossLabels';
import { ISaves, SaveChoice } from './saveChoice';

/**
 * Asks for confirmation, and lists the kernels and jobs that would end. *saves*: whether variables are
 * saved before, which the user can change.
 */
export async function confirmDestructive(
  action: DestructiveAction,
  tpu: ITPU,
  loss: ILoss,
  environment = '',
  saves: ISaves = {}
): Promise<boolean> {
  const { accept, title } = lossQuestion(action, tpu, loss, environment);
  return confirm(
    title,
    <>
      <Loss loss={loss} />
      <SaveChoice act={action} loss={loss} saves={saves} />
    </>,
    accept
  );
}

/** The kernels and jobs that end, and what else is lost. */
export function Loss({ loss }: { loss: IConsequences }): JSX.Element {
  return (
    <>
      {endings(loss).map(({ items, text }) => (
        <React.Fragment key={text}>
          {text && <p>{text}</p>}
          <ul>
            {items.map(({ name, state, title }, index) => (
              <li key={index} title={title}>
                {name} <em>{state}</em>
              </li>
            ))}
          </ul>
        </React.Fragment>
      ))}
      {loss.sessions_text && <p>{loss.sessions_text}</p>}
      {loss.lost.map(sentence => (
        <p key={sentence}>{sentence}</p>
      ))}
    </>
  );
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

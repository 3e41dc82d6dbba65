// The question before something is lost, or costs money.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { trans } from './translation';

/** Asks a question that Enter alone answers with no. */
export async function confirm(
  title: string,
  body: JSX.Element,
  accept: Dialog.IButton,
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

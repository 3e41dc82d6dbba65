// The question on which hosts of a pod a notebook runs.

import { Dialog, showDialog } from '@jupyterlab/apputils';

import { IEnvironment } from '../rest/api';
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

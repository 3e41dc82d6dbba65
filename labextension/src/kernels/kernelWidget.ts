// Notebooks and consoles by their kernel connection, without loading the packages they come from.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Kernel } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

export interface IKernelWidget {
  sessionContext: {
    session: { kernel: Kernel.IKernelConnection | null } | null;
  };
}

/** The notebook or console with a kernel connection; undefined if there is none. */
export function findKernelWidget(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): IKernelWidget | undefined {
  const widgets: Iterable<Widget & Partial<IKernelWidget>> =
    shell.widgets('main');
  return [...widgets].find(
    (widget): widget is Widget & IKernelWidget =>
      widget.sessionContext?.session?.kernel?.clientId === clientId
  );
}

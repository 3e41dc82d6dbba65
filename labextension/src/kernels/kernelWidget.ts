// Notebooks and consoles by their kernel connection, without loading the packages they come from.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Kernel } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

export interface IKernelWidget {
  sessionContext: {
    name: string;
    path: string;
    session: {
      id: string;
      kernel: Kernel.IKernelConnection | null;
    } | null;
  };
}

/** The notebooks and consoles that are open. */
export function kernelWidgets(
  shell: JupyterFrontEnd.IShell
): (Widget & IKernelWidget)[] {
  const widgets: Iterable<Widget & Partial<IKernelWidget>> =
    shell.widgets('main');
  return [...widgets].filter(
    (widget): widget is Widget & IKernelWidget => !!widget.sessionContext
  );
}

/** The notebook or console with a kernel connection; undefined if there is none. */
export function findKernelWidget(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): IKernelWidget | undefined {
  return kernelWidgets(shell).find(
    ({ sessionContext: { session } }) => session?.kernel?.clientId === clientId
  );
}

/** The notebook or console whose *path* on the server's machine is this; undefined: none is open. */
export function findDocument(
  shell: JupyterFrontEnd.IShell,
  path: string
): (Widget & IKernelWidget) | undefined {
  const absolute = path.replace(/\\/g, '/');
  return kernelWidgets(shell).find(({ sessionContext }) => {
    // Below the server's folder; a drive of the browser's, such as RTC:, is not part of it.
    const relative = sessionContext.path?.replace(/^\w+:/, '');
    return !!relative && absolute.endsWith(`/${relative}`);
  });
}

/**
 * Opens a document, and gives it the focus when its content is there: JupyterLab does not, and until
 * then the menus are about another tab.
 */
export async function openDocument(
  commands: CommandRegistry,
  path: string
): Promise<void> {
  const widget = (await commands.execute('docmanager:open', { path })) as
    (Widget & { revealed?: Promise<void> }) | undefined; // in a window of its own
  await widget?.revealed;
  if (!widget?.isDisposed) {
    widget?.activate();
  }
}

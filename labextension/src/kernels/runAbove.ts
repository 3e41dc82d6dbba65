// Runs a notebook again up to its selected cell, after its kernel was lost.

import { JupyterFrontEnd } from '@jupyterlab/application';

import { findDocument } from './kernelWidget';

const RESTART = 'notebook:restart-kernel';
const RUN_ABOVE = 'notebook:run-all-above';

/** In a new kernel, if it has none; JupyterLab may ask before it starts that. */
export async function runAbove(
  app: JupyterFrontEnd,
  path: string
): Promise<void> {
  const widget = findDocument(app.shell, path);
  if (!widget) {
    return; // closed meanwhile
  }
  app.shell.activateById(widget.id);
  const kernel = widget.sessionContext.session?.kernel;
  const isAlive =
    kernel?.connectionStatus === 'connected' && kernel.status !== 'dead';
  if (isAlive || (await app.commands.execute(RESTART))) {
    await app.commands.execute(RUN_ABOVE);
  }
}

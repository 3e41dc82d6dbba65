// Kernels that outlive the server: their websockets, and cells that were running before this page.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection, ServiceManager } from '@jupyterlab/services';

import { restoreRunningCells } from './runningCells';
import { Positions } from './positions';
import { replayingSocket, Presence } from './socket';

/** Has the websockets of our kernels bring each message once, and running cells go on. */
export function keepKernels(app: JupyterFrontEnd): void {
  const { serviceManager, shell } = app;
  const places = new Positions();
  const settings = serviceManager.serverSettings;
  const kept = replayingSocket(settings.WebSocket, {
    places,
    isTPUKernel: kernelId => mayRunOnTPU(serviceManager, kernelId),
    presence: kernelId => presence(settings, kernelId)
  });
  // Kernel connections take their socket's class from their manager's settings, which is the
  // documented way to give them another one; there is none to do it for a manager that exists.
  const { sessions, kernels } = serviceManager;
  for (const each of [settings, sessions, kernels]) {
    const found = 'serverSettings' in each ? each.serverSettings : each;
    (found as { WebSocket: typeof WebSocket }).WebSocket = kept;
  }
  restoreRunningCells(shell, places);
}

/** False where it is known that another provisioner, or none, has the kernel. */
function mayRunOnTPU(services: ServiceManager.IManager, id: string): boolean {
  const { kernels, sessions, kernelspecs } = services;
  const model =
    [...kernels.running()].find(kernel => kernel.id === id) ??
    [...sessions.running()].find(session => session.kernel?.id === id)?.kernel;
  const spec = model && kernelspecs.specs?.kernelspecs[model.name];
  if (!spec) {
    return true;
  }
  const provisioner = spec.metadata?.['kernel_provisioner'] as
    { provisioner_name?: string } | undefined;
  return provisioner?.provisioner_name === 'jupyter-tpu';
}

async function presence(
  settings: ServerConnection.ISettings,
  kernelId: string
): Promise<Presence> {
  const url = URLExt.join(settings.baseUrl, 'api/kernels', kernelId);
  try {
    const { status } = await ServerConnection.makeRequest(url, {}, settings);
    // What is neither says something about the server, not about the kernel.
    return status === 200 ? 'there' : status === 404 ? 'gone' : 'away';
  } catch {
    return 'away';
  }
}

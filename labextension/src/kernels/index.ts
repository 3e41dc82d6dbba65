// Plugins for kernels on TPUs: websockets that lose nothing, running cells in a notebook that is
// opened again, why a kernel can't be reached or that it can again, kernelspecs that appear with their
// TPU, and notebooks without a kernel when it died.

/* eslint-disable jupyter/prefer-lazy-imports -- Kernels connect as soon as the page is there. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  IServerSettings,
  KernelAPI,
  ServerConnection,
  ServiceManager,
  ServiceManagerPlugin
} from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { loadTranslation } from '../language/translation';
import { observedSocket } from '../model/changeFeed';
import { TPUModel } from '../model/model';
import { later } from '../state/later';
import { ITPUModel } from '../tokens';
import { attempt } from '../ui/attempt';
import { closeConnectionDialog } from './connectionDialog';
import { notifyOfConnectionProblems } from './connectionProblems';
import { ICells, queueEarlyCells } from './earlyCells';
import { IKernelStarts, KernelStarts } from './kernelStarts';
import { IKernelReplay, KernelReplay } from './replay';
import { restoreRunningCells } from './runningCells';
import { saveOnRun } from './saveOnRun';
import { ServerKernels } from './serverKernels';
import { KernelStatus, replayingSocket } from './socket';

/** Milliseconds between two looks for a dead kernel, and until JupyterLab looks itself. */
const DROP = { interval: 500, timeout: 10000 };

const replay: ServiceManagerPlugin<KernelReplay> = {
  id: 'jupyter-tpu:kernel-replay',
  description: 'Knows which output of kernels on TPUs this page has.',
  autoStart: true,
  provides: IKernelReplay,
  activate: () => new KernelReplay()
};

const starts: ServiceManagerPlugin<KernelStarts> = {
  id: 'jupyter-tpu:kernel-starts',
  description:
    'Holds starts of kernels while the chips of their TPU are in use.',
  autoStart: true,
  provides: IKernelStarts,
  activate: () => new KernelStarts()
};

/**
 * JupyterLab's own server settings with another class of sockets. Registered after JupyterLab's
 * plugin, it takes its place; when it is disabled, JupyterLab's is used.
 */
const socket: ServiceManagerPlugin<ServerConnection.ISettings> = {
  id: 'jupyter-tpu:kernel-socket',
  description:
    'Connects to kernels on TPUs so that each output arrives once, also after an interruption.',
  autoStart: true,
  provides: IServerSettings,
  optional: [IKernelReplay, IKernelStarts],
  activate: (
    _: null,
    replay: KernelReplay | null,
    starts: KernelStarts | null
  ) => {
    const settings = ServerConnection.makeSettings();
    const base = replay
      ? replayingSocket(settings.WebSocket, {
          replay,
          lookUp: kernelId => lookUp(settings, kernelId)
        })
      : settings.WebSocket;
    // JupyterLab's socket for events is the model's, too.
    return {
      ...settings,
      WebSocket: observedSocket(base),
      fetch: starts?.holding(settings.fetch) ?? settings.fetch
    };
  }
};

const filter: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:kernel-filter',
  description:
    'Leaves kernels that do not run on TPUs to JupyterLab’s sockets.',
  autoStart: true,
  requires: [IKernelReplay],
  activate: (app: JupyterFrontEnd, replay: KernelReplay) => {
    replay.mayRunOnTPU = id => mayRunOnTPU(app.serviceManager, id);
  }
};

const connections: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:kernel-connections',
  description: 'Notifies when a kernel on a TPU cannot be reached, and why.',
  autoStart: true,
  requires: [IKernelReplay],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    replay: KernelReplay,
    translator: ITranslator | null
  ) => {
    const { serviceManager, shell } = app;
    loadTranslation(translator);
    notifyOfConnectionProblems(replay, shell, serviceManager.serverSettings);
  }
};

const connectionDialog: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:connection-dialog',
  description:
    'Closes the dialog “Server Connection Error” when the server answers again.',
  autoStart: true,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) =>
    closeConnectionDialog(
      app.serviceManager.serverSettings,
      (translator ?? nullTranslator).load('jupyterlab')
    )
};

const runningCells: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:running-cells',
  description:
    'Fills cells that are still running when their notebook is opened again.',
  autoStart: true,
  requires: [IKernelReplay],
  activate: (app: JupyterFrontEnd, replay: KernelReplay) =>
    restoreRunningCells(app.shell, app.serviceManager.contents, replay)
};

const saving: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:save-on-run',
  description: 'Saves a notebook when one of its cells is run on a TPU.',
  autoStart: true,
  requires: [IKernelReplay],
  optional: [ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    replay: KernelReplay,
    registry: ISettingRegistry | null
  ) => {
    let settings: ISettingRegistry.ISettings | null = null;
    saveOnRun(
      app.shell,
      replay,
      () => (settings?.get('save').composite ?? true) as boolean
    );
    void registry
      ?.load(saving.id)
      .then(loaded => {
        settings = loaded;
      })
      .catch(reason => {
        console.error('The setting for saving could not be loaded', reason);
      });
  }
};

const earlyCells: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:early-cells',
  description: 'Lets cells wait for a kernel that is starting.',
  autoStart: true,
  activate: ({ docRegistry }: JupyterFrontEnd) => {
    docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel, context) => {
        void context.ready.then(() => {
          const { widgets } = (panel as unknown as { content: ICells }).content;
          const cell = widgets?.find(({ model }) => model.type === 'code');
          if (cell) {
            queueEarlyCells(cell);
          }
        });
      }
    });
  }
};

const kernelspecs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:kernelspecs',
  description:
    'Updates the launcher and the kernel pickers when the kernels of TPUs change.',
  autoStart: true,
  requires: [ITPUModel],
  activate: (app: JupyterFrontEnd, model: TPUModel) => {
    const { kernelspecs } = app.serviceManager;
    model.kernelspecsChanged.connect(
      () => void attempt(kernelspecs.refreshSpecs())
    );
  }
};

const chips: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:chips-in-use',
  description:
    'Asks what to do when a kernel can’t start because the chips of its TPU are in use.',
  autoStart: true,
  requires: [IKernelStarts, ITPUModel],
  activate: (app: JupyterFrontEnd, starts: KernelStarts, model: TPUModel) => {
    const kernels = new ServerKernels(app.serviceManager, app.commands);
    const asking = later(async () => {
      const { ChipsInUse } = await import('./chipsInUse');
      return new ChipsInUse(app.shell, model, kernels);
    });
    starts.refused.connect((_, start) => void attempt(asking.ask(start)));
    starts.isWatched = true;
  }
};

const deadKernels: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:dead-kernels',
  description: 'Shows at once that a notebook has no kernel any more.',
  autoStart: true,
  requires: [ITPUModel],
  activate: (app: JupyterFrontEnd, model: TPUModel) => {
    model.kernelProblem.connect((_, { id, state }) => {
      if (state === 'dead') {
        void dropKernel(app.serviceManager, id);
      }
    });
  }
};

/**
 * Looks at the server's list until it is without a kernel that died. JupyterLab looks only every
 * 10 seconds, and until then *Restart Kernel* would fail.
 */
async function dropKernel(
  { sessions }: ServiceManager.IManager,
  id: string
): Promise<void> {
  const end = Date.now() + DROP.timeout;
  while (
    Date.now() < end &&
    [...sessions.running()].some(({ kernel }) => kernel?.id === id)
  ) {
    await new Promise(resolve => setTimeout(resolve, DROP.interval));
    await sessions.refreshRunning().catch(() => undefined); // tried again
  }
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

async function lookUp(
  settings: ServerConnection.ISettings,
  kernelId: string
): Promise<KernelStatus> {
  try {
    const kernel = await KernelAPI.getKernelModel(kernelId, settings);
    return kernel ? 'found' : 'missing';
  } catch (error) {
    const { response } = error as Partial<ServerConnection.ResponseError>;
    return [401, 403].includes(response?.status ?? 0)
      ? 'denied'
      : 'unavailable';
  }
}

export default [
  replay,
  starts,
  socket,
  filter,
  connections,
  connectionDialog,
  runningCells,
  saving,
  earlyCells,
  kernelspecs,
  chips,
  deadKernels
];

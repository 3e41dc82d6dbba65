// Wires the model to the server and to JupyterLab; what it shows is in components/.

/* eslint-disable jupyter/prefer-lazy-imports --
   The list, its events and the status bar item are request from the start on. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Actions } from './actions/actions';
import { addAppTabs } from './apps';
import { addCommands, CommandIDs } from './actions/commands';
import { TPUPanel } from './panel/panel';
import { StatusItem, statusOf } from './statusBar';
import { ConnectForm } from './forms/connectForm';
import { ServerChangeFeed } from './model/changeFeed';
import { CreateForm } from './forms/createForm';
import { keepKernels } from './kernels';
import { ServerKernels } from './kernels/serverKernels';
import { TPUModel } from './model/model';
import { addNotifications } from './notifications';
import { TPUClient } from './model/client';
import { addRunning } from './running';
import { PanelState } from './actions/panelState';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:plugin',
  description: 'The TPU panel, its launcher item and its status bar item.',
  autoStart: true,
  optional: [
    ITranslator,
    ILayoutRestorer,
    ICommandPalette,
    ILauncher,
    IStatusBar,
    IRunningSessionManagers,
    ISettingRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    statusBar: IStatusBar | null,
    running: IRunningSessionManagers | null,
    settings: ISettingRegistry | null
  ) => {
    const { commands, serviceManager, shell } = app;
    keepKernels(app);
    const { kernelspecs, serverSettings } = serviceManager;
    const trans = (translator ?? nullTranslator).load('jupyter_tpu');
    const language = translator?.languageCode.replace('_', '-') ?? 'en';

    const model = new TPUModel(
      new TPUClient(serverSettings),
      new ServerChangeFeed(serverSettings)
    );
    const actions = new Actions(
      model,
      new CreateForm(model),
      new ConnectForm(model),
      new PanelState(),
      commands,
      new ServerKernels(serviceManager, commands),
      trans,
      language === 'default' ? 'en' : language
    );
    const panel = new TPUPanel(actions, commands);
    const open = () => shell.activateById(panel.id);

    shell.add(panel, 'left', { rank: 550, type: 'TPU' });
    restorer?.add(panel, panel.id);
    addCommands(commands, palette, actions, open);
    addAppTabs(app, restorer, model, trans);
    launcher?.add({
      command: CommandIDs.open,
      category: trans.__('Other'),
      rank: 10
    });
    statusBar?.registerStatusItem('jupyter-tpu:status', {
      align: 'left',
      rank: 90,
      item: new StatusItem(model, trans, open),
      isActive: () => statusOf(model, trans) !== null,
      activeStateChanged: model.stateChanged
    });
    if (running) {
      addRunning(running, actions, open);
    }
    addNotifications(actions, panel, open);
    // Launcher and pickers show a TPU's kernel as soon as it is there.
    model.kernelspecsChanged.connect(() => void kernelspecs.refreshSpecs());

    settings
      ?.load(plugin.id)
      .then(loaded => {
        const apply = () => {
          actions.notify = loaded.get('notify').composite as boolean;
        };
        loaded.changed.connect(apply);
        apply();
      })
      .catch(reason => {
        Notification.error(trans.__('TPU settings did not load: %1', reason));
      });
    model.open();
  }
};

export default plugin;

// The plugin that provides the actions, and their commands.

/* eslint-disable jupyter/prefer-lazy-imports -- The panel needs the actions from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { ServerKernels } from '../kernels/serverKernels';
import { CreateDefaults, ICreateDefaults } from '../lifecycle/createDefaults';
import { TPUModel } from '../model/model';
import { StoredIds } from '../state/storedIds';
import { ITPUActions, ITPUModel } from '../tokens';
import { ViewState } from '../ui/viewState';
import { Actions } from './actions';
import { addCommands } from './commands';

const plugin: JupyterFrontEndPlugin<Actions> = {
  id: 'jupyter-tpu:commands',
  description: 'Adds the commands for TPUs.',
  autoStart: true,
  provides: ITPUActions,
  requires: [ITPUModel],
  optional: [ICommandPalette, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null
  ) => {
    const { commands, serviceManager } = app;
    const defaults = new CreateDefaults(
      window.localStorage,
      `jupyter-tpu:create:${serviceManager.serverSettings.baseUrl}`
    );
    const actions = new Actions(
      model,
      new ViewState(
        new StoredIds(
          window.localStorage,
          `jupyter-tpu:folded:${serviceManager.serverSettings.baseUrl}`
        )
      ),
      commands,
      new ServerKernels(serviceManager, commands),
      {
        open: async (example, environment) => {
          const { Examples } = await import('../kernels/examples');
          const { contents } = serviceManager;
          return new Examples(contents, commands).open(example, environment);
        }
      },
      defaults
    );
    addCommands(commands, palette, actions);
    void registry
      ?.load(plugin.id)
      .then(settings => {
        const update = () => {
          defaults.settings = settings.composite as Partial<ICreateDefaults>;
        };
        settings.changed.connect(update);
        update();
      })
      .catch(reason => {
        console.error('The settings for new TPUs could not be loaded', reason);
      });
    return actions;
  }
};

export default [plugin];

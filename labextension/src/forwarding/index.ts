// The plugin that shows web apps of hosts: one tab for each, opened again when the layout is
// restored. Jupyter Notebook has no tabs: there, apps open in browser windows.

/* eslint-disable jupyter/prefer-lazy-imports -- Small; a tab is loaded when the first one opens. */

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../actions/commandIDs';
import { TPUModel } from '../model/model';
import { ITPUModel } from '../tokens';
import { loadTranslation, trans } from '../ui/translation';
import type { AppTab } from './appTab';
import { IAppTarget, targetKey } from './target';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:apps',
  description: 'Shows web apps of hosts, such as TensorBoard.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ITranslator, ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) => {
    const { commands } = app;
    loadTranslation(translator);
    const tracker = new WidgetTracker<AppTab>({
      namespace: 'jupyter-tpu-apps'
    });

    const addTab = async (target: IAppTarget, shell: ILabShell) => {
      const { AppTab } = await import('./appTab');
      const tab = new AppTab(target, model);
      void tracker.add(tab);
      shell.add(tab, 'main', { type: 'TPU App' });
      return tab;
    };
    const openTab = async (target: IAppTarget, shell: ILabShell) => {
      const key = targetKey(target);
      const open = tracker.find(one => targetKey(one.target) === key);
      shell.activateById((open ?? (await addTab(target, shell))).id);
    };

    commands.addCommand(CommandIDs.showApp, {
      label: trans.__('Show a Web App of a TPU’s Host'),
      describedBy: {
        args: {
          type: 'object',
          required: ['tpu'],
          properties: {
            tpu: {
              type: 'string',
              description: trans.__('The TPU, as zone/name')
            },
            host: {
              type: 'integer',
              description: trans.__('The number of the host')
            },
            port: {
              type: 'integer',
              description: trans.__('The port on the host')
            },
            path: {
              type: 'string',
              description: trans.__('The path of the first page')
            },
            name: {
              type: 'string',
              description: trans.__('The title of the tab')
            },
            logdir: {
              type: 'string',
              description: trans.__(
                'A log folder to show in TensorBoard, instead of a port'
              )
            }
          }
        }
      },
      execute: async args => {
        const target: IAppTarget = {
          host: 0,
          port: 0,
          path: '/',
          logdir: '',
          name: args.logdir
            ? trans.__('TensorBoard')
            : trans.__('Port %1', args.port),
          ...(args as Pick<IAppTarget, 'tpu'>)
        };
        if (labShell) {
          await openTab(target, labShell);
        } else {
          const { AppOpener } = await import('./appOpener');
          await new AppOpener(model).openWindow(target);
        }
      }
    });
    // Only the target is stored: an address can be used once.
    void restorer?.restore(tracker, {
      command: CommandIDs.showApp,
      args: tab => tab.target,
      name: tab => targetKey(tab.target)
    });
  }
};

export default [plugin];

// The plugin that shows the output of commands on hosts, one tab for each.

import {
  ILabShell,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../actions/commandIDs';
import { TPUModel } from '../model/model';
import { IRun } from '../rest/api';
import { ITPUModel } from '../tokens';
import { loadTranslation, trans } from '../ui/translation';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:runs',
  description: 'Shows the output of commands on hosts.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ITranslator, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    translator: ITranslator | null,
    labShell: ILabShell | null
  ) => {
    loadTranslation(translator);
    // The main area of Jupyter Notebook has room for one document.
    const area = labShell ? 'main' : 'down';
    app.commands.addCommand(CommandIDs.showRun, {
      label: trans.__('Show a Command on a TPU’s Hosts'),
      describedBy: {
        args: {
          type: 'object',
          required: ['run'],
          properties: {
            run: {
              type: 'object',
              description: trans.__('The run, as the server described it')
            }
          }
        }
      },
      execute: async args => {
        const { RunTab } = await import('./runTab');
        const run = args.run as unknown as IRun;
        const tab = new RunTab(run, model);
        app.shell.add(tab, area, { type: 'TPU Command' });
        app.shell.activateById(tab.id);
      }
    });
  }
};

export default [plugin];

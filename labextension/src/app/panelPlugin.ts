// The plugin that adds the panel to the left sidebar, and opens the pages of TPUs.

/* eslint-disable jupyter/prefer-lazy-imports -- The panel may be open from the start. */

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';

import { CommandIDs } from '../actions/commandIDs';
import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { TPUPanel } from '../panel/panel';
import { ITPUActions } from '../tokens';
import { describe, NO_ARGUMENTS } from '../ui/described';
import { tpuIcon } from '../ui/icons';
import { addTabs } from '../ui/tabs';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:panel',
  description: 'Adds the TPU panel, and opens it from the launcher.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    actions: IPanelActions,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null
  ) => {
    const { commands, shell } = app;
    const panel = new TPUPanel(actions);
    shell.add(panel, 'left', { rank: 550, type: 'TPU' });
    restorer?.add(panel, panel.id);

    const command = CommandIDs.open;
    commands.addCommand(command, {
      label: args =>
        args.isPalette ? trans.__('Open TPU Panel') : trans.__('TPU'),
      caption: trans.__('List, create and connect Cloud TPUs'),
      icon: tpuIcon,
      describedBy: NO_ARGUMENTS,
      // Up to Notebook 7.5, `activateById` hides a panel beside the notebook that is shown.
      execute: () =>
        panel.isVisible ? panel.activate() : shell.activateById(panel.id)
    });
    palette?.addItem({
      command,
      category: trans.__('TPU'),
      args: { isPalette: true }
    });
    launcher?.add({ command, category: trans.__('Other'), rank: 10 });
    addTabs<{ readonly tpu: string }>(app, labShell, restorer, {
      command: CommandIDs.showTPU,
      type: 'TPU',
      label: trans.__('Show a TPU'),
      describedBy: describe(
        { tpu: ['string', trans.__('The TPU, as zone/name')] },
        'tpu'
      ),
      namespace: 'jupyter-tpu-pages',
      argsOf: ({ tpu }) => ({ tpu: tpu as string }),
      keyOf: ({ tpu }) => tpu,
      create: async ({ tpu }) => {
        const [{ pageTab }] = await Promise.all([
          import('../tpuPage/page'),
          actions.loadForms()
        ]);
        return pageTab(tpu, actions);
      },
      onFirstPage: true
    });
  }
};

export default [plugin];

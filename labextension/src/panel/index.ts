// The plugin that adds the panel to the left sidebar, and opens the pages of TPUs.

/* eslint-disable jupyter/prefer-lazy-imports -- The panel may be open from the start. */

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { TabPanel } from '@lumino/widgets';

import { Actions } from '../actions/actions';
import { CommandIDs, NO_ARGUMENTS } from '../actions/commandIDs';
import { ITPUActions } from '../tokens';
import type { TPUPage } from '../tpuPage/page';
import { tpuIcon } from '../ui/icons';
import { trans } from '../ui/translation';
import { TPUPanel } from './panel';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:panel',
  description: 'Adds the TPU panel, and opens it from the launcher.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    actions: Actions,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null
  ) => {
    const { commands, shell } = app;
    const panel = new TPUPanel(actions, commands);
    shell.add(panel, 'left', { rank: 550, type: 'TPU' });
    restorer?.add(panel, panel.id);

    const command = CommandIDs.open;
    commands.addCommand(command, {
      label: args =>
        args.isPalette ? trans.__('Open TPU Panel') : trans.__('TPU'),
      caption: trans.__('List, create and connect Cloud TPUs'),
      icon: tpuIcon,
      describedBy: NO_ARGUMENTS,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({
      command,
      category: trans.__('TPU'),
      args: { isPalette: true }
    });
    launcher?.add({ command, category: trans.__('Other'), rank: 10 });
    addPages(app, actions, labShell, restorer);
  }
};

/** The command that shows the page of a TPU: one tab for each, which the layout keeps. */
function addPages(
  app: JupyterFrontEnd,
  actions: Actions,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null
): void {
  const { commands, shell } = app;
  const tracker = new WidgetTracker<MainAreaWidget<TPUPage>>({
    namespace: 'jupyter-tpu-pages'
  });
  const open = async (tpu: string) => {
    const { TPUPage } = await import('../tpuPage/page');
    const content = new TPUPage(tpu, actions, commands);
    const tab = new MainAreaWidget({ content });
    const [zone, name] = tpu.split('/');
    tab.id = `jp-tpu-page-${tpu.replace('/', '-')}`;
    tab.title.label = name;
    tab.title.caption = trans.__('TPU %1 in %2', name, zone);
    tab.title.icon = tpuIcon;
    tab.title.closable = true;
    void tracker.add(tab);
    addTab(tab);
    return tab;
  };
  /** Jupyter Notebook has tabs on its first page only; a document's page shows it below. */
  const tabs = () =>
    [...shell.widgets('main')].find(one => one instanceof TabPanel) as
      TabPanel | undefined;
  const addTab = (tab: MainAreaWidget) => {
    const first = labShell ? undefined : tabs();
    if (first) {
      first.addWidget(tab);
    } else {
      shell.add(tab, labShell ? 'main' : 'down', { type: 'TPU' });
    }
  };
  commands.addCommand(CommandIDs.showTPU, {
    label: trans.__('Show a TPU'),
    describedBy: {
      args: {
        type: 'object',
        required: ['tpu'],
        properties: {
          tpu: {
            type: 'string',
            description: trans.__('The TPU, as zone/name')
          }
        }
      }
    },
    execute: async args => {
      const tpu = args.tpu as string;
      const known = tracker.find(one => one.content.tpu === tpu);
      const tab = known ?? (await open(tpu));
      const first = labShell ? undefined : tabs();
      if (first?.widgets.includes(tab)) {
        first.currentWidget = tab;
      } else {
        shell.activateById(tab.id);
      }
    }
  });
  void restorer?.restore(tracker, {
    command: CommandIDs.showTPU,
    args: tab => ({ tpu: tab.content.tpu }),
    name: tab => tab.content.tpu
  });
}

export default [plugin];

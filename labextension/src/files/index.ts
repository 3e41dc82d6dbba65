// The plugins that show the files of hosts in JupyterLab's file browser, as drives, and that copy and
// sync what is selected in a file browser.

/* eslint-disable jupyter/prefer-lazy-imports -- Documents on drives are restored at the start. */

import {
  ILabShell,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { FileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';

import { CommandIDs } from '../actions/commandIDs';
import { IPanelActions } from '../actions/panelActions';
import { ACTIONS } from '../actions/table';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { ITPUActions, ITPUModel } from '../tokens';
import { attempt } from '../ui/attempt';
import { chooseTPU } from '../ui/chooseTPU';
import { describe, NO_ARGUMENTS } from '../ui/described';
import { paths } from '../ui/paths';
import { Drives } from './drives';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:drive',
  description: 'Shows files of hosts in the file browser.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [IFileBrowserFactory, ILabShell, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    factory: IFileBrowserFactory | null,
    shell: ILabShell | null,
    documents: IDocumentManager | null
  ) => {
    const { commands, serviceManager } = app;
    const { contents, serverSettings } = serviceManager;
    const drives = new Drives(contents, serverSettings, window.localStorage);
    if (documents) {
      paths.pick = async (title, { tpu, host = 0, folder = false }) => {
        const { pickPath } = await import('./pickPath');
        const drive = tpu && drives.of({ ...tpu, host });
        return pickPath(title, documents, drive ?? null, folder);
      };
    }
    if (!factory || !shell) {
      return; // only JupyterLab shows file browsers; others open documents on drives
    }
    const browsers = new Map<string, FileBrowser>();

    /** Begins in the home folder. */
    const addBrowser = async (key: string, tpu: ITPU, host: number) => {
      const { createBrowser } = await import('./browser');
      const { name, zone, hosts } = tpu;
      const drive = drives.of({ name, zone, host });
      const title =
        hosts.length > 1 ? trans.__('%1 host %2', name, host) : name;
      const browser = createBrowser(drive, title, factory, commands);
      browsers.set(key, browser);
      browser.disposed.connect(() => browsers.delete(key));
      shell.add(browser, 'left', { rank: 110, type: 'File Browser' });
      const opened = drive.home().then(home => browser.model.cd(`/${home}`));
      void attempt(opened);
      return browser;
    };

    commands.addCommand(CommandIDs.showFiles, {
      label: trans.__('Show the Files of a TPU’s Host'),
      describedBy: describe(
        {
          tpu: ['string', trans.__('The TPU, as zone/name')],
          host: ['integer', trans.__('The number of the host')]
        },
        'tpu'
      ),
      execute: async args => {
        const tpu = model.tpu(args.tpu as string);
        if (tpu) {
          const host = (args.host as number | undefined) ?? 0;
          const key = `${keyOf(tpu)} ${host}`;
          const browser =
            browsers.get(key) ?? (await addBrowser(key, tpu, host));
          shell.activateById(browser.id);
        }
      }
    });

    model.stateChanged.connect(() => {
      for (const [key, browser] of browsers) {
        if (model.tpu(key.split(' ')[0])?.state !== 'READY') {
          browser.dispose();
        }
      }
    });
  }
};

/** *Copy to TPU…* and *Sync with TPU…* in the menu of JupyterLab's file browser. */
const menu: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:file-menu',
  description: 'Copies and syncs what is selected in the file browser.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [IFileBrowserFactory],
  activate: (
    app: JupyterFrontEnd,
    actions: IPanelActions,
    factory: IFileBrowserFactory | null
  ) => {
    if (!factory) {
      return; // a page without a file browser
    }
    const { tracker } = factory;
    const { commands } = app;
    const { contents } = app.serviceManager;
    /** Relative to what Jupyter shows; none of a host's drive. */
    const selected = () =>
      [...(tracker.currentWidget?.selectedItems() ?? [])]
        .map(({ path }) => path)
        .filter(path => ['', 'RTC'].includes(contents.driveName(path)))
        .map(path => contents.localPath(path));
    const able = (action: 'copy' | 'sync') =>
      actions.model.tpus.filter(tpu => actions.available(tpu).includes(action));
    const add = (
      command: string,
      action: 'copy' | 'sync',
      label: string,
      run: (tpu: ITPU, names: string[]) => Promise<void>
    ) =>
      commands.addCommand(command, {
        label,
        icon: ACTIONS[action].icon,
        describedBy: NO_ARGUMENTS,
        isVisible: () => selected().length > 0 && able(action).length > 0,
        execute: async () => {
          const names = selected();
          const tpu = await chooseTPU(able(action));
          if (tpu && names.length > 0) {
            actions.openPanel(); // which shows the progress
            await attempt(run(tpu, names));
          }
        }
      });
    add(
      CommandIDs.copySelection,
      'copy',
      trans.__('Copy to TPU…'),
      (tpu, names) => actions.copies.copy(tpu, names.join('\n'))
    );
    add(
      CommandIDs.syncSelection,
      'sync',
      trans.__('Sync with TPU…'),
      (tpu, [name]) => actions.copies.sync(tpu, name)
    );
  }
};

export default [plugin, menu];

// The plugin that shows the files of hosts in JupyterLab's file browser, as drives.

/* eslint-disable jupyter/prefer-lazy-imports -- Documents on drives are restored at the start. */

import {
  ILabShell,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { FileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../actions/commandIDs';
import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { ITPU } from '../rest/api';
import { ITPUModel } from '../tokens';
import { attempt } from '../ui/attempt';
import { loadTranslation, trans } from '../ui/translation';
import { createBrowser } from './browser';
import { Drives } from './drives';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:drive',
  description: 'Shows files of hosts in the file browser.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [IFileBrowserFactory, ILabShell, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    factory: IFileBrowserFactory | null,
    shell: ILabShell | null,
    translator: ITranslator | null
  ) => {
    const { commands, serviceManager } = app;
    loadTranslation(translator);
    const { contents, serverSettings } = serviceManager;
    const drives = new Drives(contents, serverSettings, window.localStorage);
    if (!factory || !shell) {
      return; // only JupyterLab shows file browsers; others open documents on drives
    }
    const browsers = new Map<string, FileBrowser>();

    /** Begins in the home folder. */
    const addBrowser = (key: string, tpu: ITPU, host: number) => {
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
            }
          }
        }
      },
      execute: async args => {
        const tpu = model.tpu(args.tpu as string);
        if (tpu) {
          const host = (args.host as number | undefined) ?? 0;
          const key = `${keyOf(tpu)} ${host}`;
          const browser = browsers.get(key) ?? addBrowser(key, tpu, host);
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

export default [plugin];

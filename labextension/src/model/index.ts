// The plugin that provides the model.

/* eslint-disable jupyter/prefer-lazy-imports -- Other plugins need the model from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { TPUClient } from '../rest/client';
import { ITPUModel } from '../tokens';
import { ServerChangeFeed } from './changeFeed';
import { TPUModel } from './model';
import { StoredIds } from './storedIds';

const plugin: JupyterFrontEndPlugin<TPUModel> = {
  id: 'jupyter-tpu:model',
  description: 'Provides the TPUs, operations and kernels that the server has.',
  autoStart: true,
  provides: ITPUModel,
  activate: (app: JupyterFrontEnd) => {
    const { events, serverSettings } = app.serviceManager;
    const stored = (what: string) =>
      new StoredIds(
        window.localStorage,
        `jupyter-tpu:${what}:${serverSettings.baseUrl}`
      );
    const model = new TPUModel(
      new TPUClient(serverSettings),
      new ServerChangeFeed(events, serverSettings),
      stored('dismissed-operations'),
      stored('unfinished-jobs')
    );
    model.open();
    return model;
  }
};

export default [plugin];

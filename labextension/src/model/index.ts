// The plugin that provides the model.

/* eslint-disable jupyter/prefer-lazy-imports -- Other plugins need the model from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { ITPUModel } from '../tokens';
import { ServerChangeFeed } from './changeFeed';
import { TPUClient } from './client';
import { DismissedOperations } from './dismissed';
import { TPUModel } from './model';

const plugin: JupyterFrontEndPlugin<TPUModel> = {
  id: 'jupyter-tpu:model',
  description: 'Provides the TPUs, operations and kernels that the server has.',
  autoStart: true,
  provides: ITPUModel,
  activate: (app: JupyterFrontEnd) => {
    const { serverSettings } = app.serviceManager;
    const model = new TPUModel(
      new TPUClient(serverSettings),
      new ServerChangeFeed(serverSettings),
      new DismissedOperations(
        window.localStorage,
        `jupyter-tpu:dismissed-operations:${serverSettings.baseUrl}`
      )
    );
    model.open();
    return model;
  }
};

export default [plugin];

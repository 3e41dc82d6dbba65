// The plugin that provides the model.

/* eslint-disable jupyter/prefer-lazy-imports -- Other plugins need the model from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';

import { loadTranslation } from '../language/translation';
import { ServerChangeFeed } from '../model/changeFeed';
import { TPUModel } from '../model/model';
import { TPUClient } from '../rest/client';
import { StoredIds } from '../state/storedIds';
import { ITPUModel } from '../tokens';

const plugin: JupyterFrontEndPlugin<TPUModel> = {
  id: 'jupyter-tpu:model',
  description: 'Provides the TPUs, operations and kernels that the server has.',
  autoStart: true,
  provides: ITPUModel,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    loadTranslation(translator); // what the server says is kept in the user's language
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
    void model.open();
    return model;
  }
};

export default [plugin];

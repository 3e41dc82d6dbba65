// The plugins that provide the model, and the one socket for events that it shares with JupyterLab.

/* eslint-disable jupyter/prefer-lazy-imports -- Other plugins need the model from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Event,
  IEventManager,
  IServerSettings,
  ServerConnection,
  ServiceManagerPlugin
} from '@jupyterlab/services';

import { TPUClient } from '../rest/client';
import { ITPUModel } from '../tokens';
import { ObservedEventManager, ServerChangeFeed } from './changeFeed';
import { TPUModel } from './model';
import { StoredIds } from './storedIds';

/** Registered after JupyterLab's plugin, it takes its place; when it is disabled, JupyterLab's is used. */
const events: ServiceManagerPlugin<Event.IManager> = {
  id: 'jupyter-tpu:events',
  description: 'JupyterLab’s events, which also say when some may be missed.',
  autoStart: true,
  provides: IEventManager,
  optional: [IServerSettings],
  activate: (_: null, settings: ServerConnection.ISettings | null) =>
    new ObservedEventManager(settings ?? ServerConnection.makeSettings())
};

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

export default [events, plugin];

// The plugin for the saved variables of notebooks: what their kernel menu offers, and the lines that
// offer to restore them. Loaded when there is a TPU.

/* eslint-disable jupyter/prefer-lazy-imports -- The first plugins have loaded it already. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import { IPanelActions } from '../actions/panelActions';
import { ITPUActions } from '../tokens';
import { attempt } from '../ui/attempt';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:sessions',
  description:
    'Continues notebooks on other TPUs, and restores their variables.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    actions: IPanelActions,
    palette: ICommandPalette | null
  ) => {
    const { model } = actions;
    const onChange = () => {
      if (model.tpus.length > 0) {
        model.stateChanged.disconnect(onChange);
        const load = import('./notebooks');
        void attempt(
          load.then(({ addToNotebooks }) =>
            addToNotebooks(app, actions, palette)
          )
        );
      }
    };
    model.stateChanged.connect(onChange);
  }
};

export default [plugin];

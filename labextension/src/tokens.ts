// What the plugins share. Each part of the extension is a plugin of its own that can be disabled; all
// need the model, and those with buttons need the actions.

import { Token } from '@lumino/coreutils';

import { IPanelActions } from './actions/panelActions';
import type { TPUModel } from './model/model';

export const ITPUModel = new Token<TPUModel>(
  'jupyter-tpu:ITPUModel',
  'The TPUs, operations and kernels that the server has.'
);

export const ITPUActions = new Token<IPanelActions>(
  'jupyter-tpu:ITPUActions',
  'Actions on TPUs, with their dialogs.'
);

// The plugin that shows web apps of hosts: one tab for each, opened again when the layout is
// restored. Jupyter Notebook has no tabs: there, apps open in browser windows.

/* eslint-disable jupyter/prefer-lazy-imports -- Small; a tab is loaded when the first one opens. */

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';

import { CommandIDs } from '../actions/commandIDs';
import { trans } from '../language/translation';
import { IAppTarget, targetKey } from '../model/appTarget';
import { TPUModel } from '../model/model';
import { ITPUModel } from '../tokens';
import { describe } from '../ui/described';
import { addTabs } from '../ui/tabs';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:apps',
  description: 'Shows web apps of hosts, such as TensorBoard.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) =>
    addTabs<IAppTarget>(app, labShell, restorer, {
      command: CommandIDs.showApp,
      type: 'TPU App',
      label: trans.__('Show a Web App of a TPU’s Host'),
      describedBy: describe(
        {
          tpu: ['string', trans.__('The TPU, as zone/name')],
          host: ['integer', trans.__('The number of the host')],
          port: ['integer', trans.__('The port on the host')],
          path: ['string', trans.__('The path of the first page')],
          name: ['string', trans.__('The title of the tab')],
          logdir: [
            'string',
            trans.__('A log folder to show in TensorBoard, instead of a port')
          ]
        },
        'tpu'
      ),
      namespace: 'jupyter-tpu-apps',
      // Only the target is stored: an address can be used once.
      argsOf: args => ({
        host: 0,
        port: 0,
        path: '/',
        logdir: '',
        name: args.logdir
          ? trans.__('TensorBoard')
          : trans.__('Port %1', args.port),
        ...(args as Pick<IAppTarget, 'tpu'>)
      }),
      keyOf: targetKey,
      create: async target => (await import('./appTab')).appTab(target, model),
      elsewhere: async target => {
        const { AppOpener } = await import('./appOpener');
        await new AppOpener(model).openWindow(target);
      }
    })
};

export default [plugin];

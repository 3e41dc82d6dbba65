// The tabs with pages of hosts: one for each place, opened anew when the layout is restored.

import { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { AppTab } from './appTab';
import { CommandIDs } from '../actions/commands';
import { TPUModel } from '../model/model';
import { IAppTarget, targetKey } from './target';

export function addAppTabs(
  app: JupyterFrontEnd,
  restorer: ILayoutRestorer | null,
  model: TPUModel,
  trans: TranslationBundle
): void {
  const { commands, shell } = app;
  const tracker = new WidgetTracker<AppTab>({ namespace: 'jupyter-tpu-apps' });

  const add = (place: IAppTarget): AppTab => {
    const tab = new AppTab(place, model, trans);
    void tracker.add(tab);
    shell.add(tab, 'main', { type: 'TPU App' });
    return tab;
  };

  commands.addCommand(CommandIDs.show, {
    label: trans.__('Show a Page of a TPU’s Host'),
    describedBy: {
      args: {
        type: 'object',
        required: ['tpu'],
        properties: {
          tpu: { type: 'string', description: trans.__('As zone/name') },
          host: { type: 'integer', description: trans.__('Which host') },
          port: { type: 'integer', description: trans.__('Its port') },
          path: { type: 'string', description: trans.__('Where to begin') },
          name: { type: 'string', description: trans.__('The tab’s title') },
          logdir: {
            type: 'string',
            description: trans.__('A folder of logs, for TensorBoard')
          }
        }
      }
    },
    execute: args => {
      const place: IAppTarget = {
        host: 0,
        port: 0,
        path: '/',
        logdir: '',
        name: args.logdir ? 'TensorBoard' : trans.__('Port %1', args.port),
        ...(args as Pick<IAppTarget, 'tpu'>)
      };
      const key = targetKey(place);
      const there = tracker.find(one => targetKey(one.place) === key);
      shell.activateById((there ?? add(place)).id);
    }
  });
  // What is stored is the place alone: addresses are good once.
  void restorer?.restore(tracker, {
    command: CommandIDs.show,
    args: tab => tab.place,
    name: tab => targetKey(tab.place)
  });
}

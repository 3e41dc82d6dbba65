// The plugin that shows the output of jobs in tabs, which are opened again with the layout.

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';

import { CommandIDs } from '../actions/commandIDs';
import { TPUModel } from '../model/model';
import { ITPUModel } from '../tokens';
import { loadTranslation, trans } from '../ui/translation';
import type { IJobTarget, JobLogView } from './logView';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:jobs',
  description: 'Shows the output of jobs on TPUs.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ITranslator, ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) => {
    const { commands, shell } = app;
    loadTranslation(translator);
    // The main area of Jupyter Notebook has room for one document.
    const area = labShell ? 'main' : 'down';
    const tracker = new WidgetTracker<MainAreaWidget<JobLogView>>({
      namespace: 'jupyter-tpu-jobs'
    });
    const open = async (target: IJobTarget) => {
      const [{ JobLogView }, { tpuIcon }] = await Promise.all([
        import('./logView'),
        import('../ui/icons')
      ]);
      const tab = new MainAreaWidget({
        content: new JobLogView(target, model)
      });
      tab.id = `jp-tpu-job-${target.job}`;
      tab.title.label = target.name;
      tab.title.caption = trans.__(
        'Output of %1 on %2',
        target.name,
        target.tpu
      );
      tab.title.icon = tpuIcon;
      tab.title.closable = true;
      void tracker.add(tab);
      shell.add(tab, area, { type: 'TPU Job' });
      return tab;
    };
    commands.addCommand(CommandIDs.showJob, {
      label: trans.__('Show the Output of a Job on a TPU'),
      describedBy: {
        args: {
          type: 'object',
          required: ['tpu', 'job', 'name'],
          properties: {
            tpu: {
              type: 'string',
              description: trans.__('The TPU, as zone/name')
            },
            job: { type: 'string', description: trans.__('The job’s ID') },
            name: {
              type: 'string',
              description: trans.__('The title of the tab')
            }
          }
        }
      },
      execute: async args => {
        const target = args as unknown as IJobTarget;
        const known = tracker.find(
          one => one.content.target.job === target.job
        );
        shell.activateById((known ?? (await open(target))).id);
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.showJob,
      args: tab => ({ ...tab.content.target }),
      name: tab => tab.content.target.job
    });
  }
};

export default [plugin];

// The plugins that show output in tabs: of jobs, which are opened again with the layout, and of
// commands on hosts, which end with their tabs.

/* eslint-disable jupyter/prefer-lazy-imports -- Small; a tab is loaded when the first one opens. */

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { JSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../actions/commandIDs';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IRun } from '../rest/api';
import { ITPUModel } from '../tokens';
import { describe } from '../ui/described';
import { addTabs } from '../ui/tabs';
import type { IJobTarget } from './logView';

const jobs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:jobs',
  description: 'Shows the output of jobs on TPUs.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) =>
    addTabs<IJobTarget>(app, labShell, restorer, {
      command: CommandIDs.showJob,
      type: 'TPU Job',
      label: trans.__('Show the Output of a Job on a TPU'),
      describedBy: describe(
        {
          tpu: ['string', trans.__('The TPU, as zone/name')],
          job: ['string', trans.__('The job’s ID')],
          name: ['string', trans.__('The title of the tab')]
        },
        'tpu',
        'job',
        'name'
      ),
      namespace: 'jupyter-tpu-jobs',
      argsOf: args => args as IJobTarget,
      keyOf: ({ job }) => job,
      create: async target => (await import('./logView')).jobTab(target, model)
    })
};

const runs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:runs',
  description: 'Shows the output of commands on hosts.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [ILabShell],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    labShell: ILabShell | null
  ) =>
    addTabs<{ run: JSONObject }>(app, labShell, null, {
      command: CommandIDs.showRun,
      type: 'TPU Command',
      label: trans.__('Show a Command on a TPU’s Hosts'),
      describedBy: describe(
        { run: ['object', trans.__('The run, as the server described it')] },
        'run'
      ),
      namespace: 'jupyter-tpu-runs',
      argsOf: args => args as { run: JSONObject },
      keyOf: ({ run }) => run.id as string,
      create: async ({ run }) =>
        (await import('./runTab')).runTab(run as unknown as IRun, model)
    })
};

export default [runs, jobs];

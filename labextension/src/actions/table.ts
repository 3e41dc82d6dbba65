// The table of what can be done with a TPU: commands, the menus, the palette and the buttons are made
// of it. `model/availableActions.ts` says when each is possible, `app/runs.ts` what it does.

import {
  bugIcon,
  checkIcon,
  clearIcon,
  consoleIcon,
  copyIcon,
  deleteIcon,
  downloadIcon,
  duplicateIcon,
  fileUploadIcon,
  historyIcon,
  LabIcon,
  launchIcon,
  linkIcon,
  notebookIcon,
  pythonIcon,
  refreshIcon,
  runIcon,
  saveIcon,
  shareIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';

import { trans } from '../language/translation';
import { Action, whyNotStoppable } from '../model/availableActions';
import { ITPU } from '../rest/api';
import {
  chartIcon,
  filesIcon,
  jobIcon,
  traceIcon,
  tunnelIcon,
  unlinkIcon
} from '../ui/icons';
import { CommandIDs } from './commandIDs';

export interface IAction {
  command: string;
  icon: LabIcon;
  label: () => string;
  /** The command that shows what it is for. Its part of the extension may be disabled. */
  shownBy?: string;
}

function row(
  command: string,
  icon: LabIcon,
  label: () => string,
  shownBy?: string
): IAction {
  return { command, icon, label, shownBy };
}

const { showApp, showFiles, showJob, showRun } = CommandIDs;

export const ACTIONS: { [action in Action]: IAction } = {
  connect: row('tpu:connect', linkIcon, () => trans.__('Connect')),
  notebook: row('tpu:new-notebook', notebookIcon, () =>
    trans.__('New Notebook')
  ),
  console: row('tpu:new-console', consoleIcon, () => trans.__('New Console')),
  example: row('tpu:open-example', duplicateIcon, () =>
    trans.__('Open Example…')
  ),
  terminal: row('tpu:open-terminal', terminalIcon, () =>
    trans.__('Open Terminal')
  ),
  run: row('tpu:run-command', runIcon, () => trans.__('Run Command…'), showRun),
  job: row('tpu:new-job', jobIcon, () => trans.__('New Job…'), showJob),
  browse: row(
    'tpu:browse-files',
    filesIcon,
    () => trans.__('Browse Files'),
    showFiles
  ),
  upload: row('tpu:upload-files', fileUploadIcon, () =>
    trans.__('Upload Files…')
  ),
  download: row('tpu:download-file', downloadIcon, () =>
    trans.__('Download File…')
  ),
  copy: row('tpu:copy-files', copyIcon, () =>
    trans.__('Copy Files and Folders…')
  ),
  sync: row('tpu:sync-project', refreshIcon, () => trans.__('Sync a Folder…')),
  share: row('tpu:share-folder', shareIcon, () => trans.__('Share a Folder…')),
  tensorboard: row(
    'tpu:open-tensorboard',
    chartIcon,
    () => trans.__('Open TensorBoard…'),
    showApp
  ),
  serve: row(
    'tpu:start-model-server',
    runIcon,
    () => trans.__('Start a Model Server…'),
    showJob
  ),
  ray: row('tpu:ray', chartIcon, () => trans.__('Ray…'), showApp),
  app: row(
    'tpu:open-port',
    launchIcon,
    () => trans.__('Open Web App…'),
    showApp
  ),
  tunnel: row('tpu:new-tunnel', tunnelIcon, () => trans.__('New Tunnel…')),
  chips: row('tpu:free-chips', clearIcon, () => trans.__('Free Chips…')),
  split: row('tpu:split-chips', duplicateIcon, () => trans.__('Split Chips…')),
  slices: row('tpu:slices-kernel', duplicateIcon, () =>
    trans.__('Kernel on Several TPUs…')
  ),
  profile: row('tpu:profile', traceIcon, () => trans.__('Trace…'), showApp),
  memory: row('tpu:memory-profile', chartIcon, () =>
    trans.__('Memory Profile…')
  ),
  check: row('tpu:check', checkIcon, () => trans.__('Check This TPU…')),
  environment: row('tpu:new-environment', pythonIcon, () =>
    trans.__('New Environment…')
  ),
  sessions: row('tpu:sessions', saveIcon, () => trans.__('Sessions…')),
  disconnect: row('tpu:disconnect', unlinkIcon, () => trans.__('Disconnect')),
  start: row('tpu:start', runIcon, () => trans.__('Start')),
  guard: row('tpu:set-guard', historyIcon, () =>
    trans.__('Stop Automatically…')
  ),
  stop: row('tpu:stop', stopIcon, () => trans.__('Stop…')),
  report: row('tpu:report-fault', bugIcon, () =>
    trans.__('Report a Host as Faulty…')
  ),
  replace: row('tpu:replace', refreshIcon, () => trans.__('Replace This TPU…')),
  detach: row('tpu:detach', unlinkIcon, () => trans.__('Detach…')),
  delete: row('tpu:delete', deleteIcon, () => trans.__('Delete…'))
};

/** What an action is called: on *tpu*, where Google may not be able to stop it. */
export function actionLabel(action: Action, tpu?: ITPU): string {
  const why = tpu && whyNotStoppable(tpu);
  return why && action === 'guard'
    ? trans.__('Delete Automatically…')
    : why && action === 'stop'
      ? why === 'hosts'
        ? trans.__('Stop (only possible with 1 host)')
        : why === 'spot'
          ? trans.__('Stop (not possible with Spot)')
          : trans.__('Stop (not possible with flex-start)')
      : ACTIONS[action].label();
}

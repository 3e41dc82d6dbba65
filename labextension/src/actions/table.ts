// The table of what can be done with a TPU: commands, the menus, the palette and the buttons are made
// of it. `model/availableActions.ts` says when each is possible.

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
  shareIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';

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
import { trans } from '../ui/translation';
import type { Actions } from './actions';
import { CommandIDs } from './commandIDs';

export interface IAction {
  command: string;
  icon: LabIcon;
  label: () => string;
  /** The command that shows what it is for. Its part of the extension may be disabled. */
  shownBy?: string;
  /** Does it, with the questions before it. */
  run: (actions: Actions, tpu: ITPU) => Promise<unknown>;
}

export const ACTIONS: { [action in Action]: IAction } = {
  connect: {
    command: 'tpu:connect',
    icon: linkIcon,
    label: () => trans.__('Connect'),
    run: (actions, tpu) => actions.connect(tpu)
  },
  notebook: {
    command: 'tpu:new-notebook',
    icon: notebookIcon,
    label: () => trans.__('New Notebook'),
    run: (actions, tpu) => actions.open.notebook(tpu)
  },
  console: {
    command: 'tpu:new-console',
    icon: consoleIcon,
    label: () => trans.__('New Console'),
    run: (actions, tpu) => actions.open.console(tpu)
  },
  example: {
    command: 'tpu:open-example',
    icon: duplicateIcon,
    label: () => trans.__('Open Example…'),
    run: (actions, tpu) => actions.open.example(tpu)
  },
  terminal: {
    command: 'tpu:open-terminal',
    icon: terminalIcon,
    label: () => trans.__('Open Terminal'),
    run: (actions, tpu) => actions.open.terminal(tpu, 0)
  },
  run: {
    command: 'tpu:run-command',
    icon: runIcon,
    label: () => trans.__('Run Command…'),
    shownBy: CommandIDs.showRun,
    run: (actions, tpu) => actions.open.run(tpu)
  },
  job: {
    command: 'tpu:new-job',
    icon: jobIcon,
    label: () => trans.__('New Job…'),
    shownBy: CommandIDs.showJob,
    run: (actions, tpu) => actions.jobs.start(tpu)
  },
  browse: {
    command: 'tpu:browse-files',
    icon: filesIcon,
    label: () => trans.__('Browse Files'),
    shownBy: CommandIDs.showFiles,
    run: (actions, tpu) => actions.open.files(tpu, 0)
  },
  upload: {
    command: 'tpu:upload-files',
    icon: fileUploadIcon,
    label: () => trans.__('Upload Files…'),
    run: async (actions, tpu) =>
      (await import('../files/transfers')).upload(tpu, actions.model)
  },
  download: {
    command: 'tpu:download-file',
    icon: downloadIcon,
    label: () => trans.__('Download File…'),
    run: async (actions, tpu) =>
      (await import('../files/transfers')).download(tpu, actions.model)
  },
  copy: {
    command: 'tpu:copy-files',
    icon: copyIcon,
    label: () => trans.__('Copy Files and Folders…'),
    run: (actions, tpu) => actions.copies.copy(tpu)
  },
  sync: {
    command: 'tpu:sync-project',
    icon: refreshIcon,
    label: () => trans.__('Sync a Folder…'),
    run: (actions, tpu) => actions.copies.sync(tpu)
  },
  share: {
    command: 'tpu:share-folder',
    icon: shareIcon,
    label: () => trans.__('Share a Folder…'),
    run: (actions, tpu) => actions.shares.share(tpu)
  },
  tensorboard: {
    command: 'tpu:open-tensorboard',
    icon: chartIcon,
    label: () => trans.__('Open TensorBoard…'),
    shownBy: CommandIDs.showApp,
    run: (actions, tpu) => actions.open.tensorBoard(tpu)
  },
  ray: {
    command: 'tpu:ray',
    icon: chartIcon,
    label: () => trans.__('Ray…'),
    shownBy: CommandIDs.showApp,
    run: async (actions, tpu) =>
      (await import('../ray/rayDialogs')).openRay(tpu, actions.model, target =>
        actions.open.app(target)
      )
  },
  app: {
    command: 'tpu:open-port',
    icon: launchIcon,
    label: () => trans.__('Open Web App…'),
    shownBy: CommandIDs.showApp,
    run: (actions, tpu) => actions.open.port(tpu)
  },
  tunnel: {
    command: 'tpu:new-tunnel',
    icon: tunnelIcon,
    label: () => trans.__('New Tunnel…'),
    run: (actions, tpu) => actions.openTunnel(tpu)
  },
  chips: {
    command: 'tpu:free-chips',
    icon: clearIcon,
    label: () => trans.__('Free Chips…'),
    run: async (actions, tpu) =>
      (await import('../chips/chipDialogs')).freeChips(tpu, actions.model)
  },
  split: {
    command: 'tpu:split-chips',
    icon: duplicateIcon,
    label: () => trans.__('Split Chips…'),
    run: async (actions, tpu) =>
      (await import('../chips/chipDialogs')).splitChips(tpu, actions.model)
  },
  slices: {
    command: 'tpu:slices-kernel',
    icon: duplicateIcon,
    label: () => trans.__('Kernel on Several TPUs…'),
    run: async (actions, tpu) =>
      (await import('../kernels/sliceDialogs')).addSlicesKernel(
        tpu,
        actions.model
      )
  },
  profile: {
    command: 'tpu:profile',
    icon: traceIcon,
    label: () => trans.__('Trace…'),
    shownBy: CommandIDs.showApp,
    run: (actions, tpu) => actions.open.profile(tpu)
  },
  memory: {
    command: 'tpu:memory-profile',
    icon: chartIcon,
    label: () => trans.__('Memory Profile…'),
    run: async (actions, tpu) =>
      (await import('../jobs/profileDialogs')).showMemory(tpu, actions.model)
  },
  check: {
    command: 'tpu:check',
    icon: checkIcon,
    label: () => trans.__('Check This TPU…'),
    run: async (actions, tpu) =>
      (await import('../setup/doctorDialogs')).checkTPU(tpu, actions.model)
  },
  environment: {
    command: 'tpu:new-environment',
    icon: pythonIcon,
    label: () => trans.__('New Environment…'),
    run: (actions, tpu) => actions.openConnectForm(tpu)
  },
  disconnect: {
    command: 'tpu:disconnect',
    icon: unlinkIcon,
    label: () => trans.__('Disconnect'),
    run: (actions, tpu) => actions.kernels.destroy('disconnect', tpu)
  },
  start: {
    command: 'tpu:start',
    icon: runIcon,
    label: () => trans.__('Start'),
    run: (actions, tpu) => actions.start(tpu)
  },
  guard: {
    command: 'tpu:set-guard',
    icon: historyIcon,
    label: () => trans.__('Stop Automatically…'),
    run: async (actions, tpu) =>
      (await import('../guard/guardDialog')).changeGuard(tpu, actions.model)
  },
  stop: {
    command: 'tpu:stop',
    icon: stopIcon,
    label: () => trans.__('Stop…'),
    run: (actions, tpu) => actions.kernels.destroy('stop', tpu)
  },
  report: {
    command: 'tpu:report-fault',
    icon: bugIcon,
    label: () => trans.__('Report a Host as Faulty…'),
    run: async (actions, tpu) =>
      (await import('../lifecycle/repairDialogs')).reportFault(
        tpu,
        actions.model
      )
  },
  replace: {
    command: 'tpu:replace',
    icon: refreshIcon,
    label: () => trans.__('Replace This TPU…'),
    run: async (actions, tpu) =>
      (await import('../lifecycle/repairDialogs')).replaceTPU(
        tpu,
        actions.model
      )
  },
  detach: {
    command: 'tpu:detach',
    icon: unlinkIcon,
    label: () => trans.__('Detach…'),
    run: (actions, tpu) => actions.kernels.destroy('detach', tpu)
  },
  delete: {
    command: 'tpu:delete',
    icon: deleteIcon,
    label: () => trans.__('Delete…'),
    run: (actions, tpu) => actions.kernels.destroy('delete', tpu)
  }
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

// The names of the commands.

import { Action } from '../model/availableActions';

export namespace CommandIDs {
  export const open = 'tpu:open-panel';
  export const attach = 'tpu:attach-machine';
  export const create = 'tpu:create';
  export const refresh = 'tpu:refresh';
  export const check = 'tpu:check';
  export const chips = 'tpu:free-chips';
  export const split = 'tpu:split-chips';
  export const guard = 'tpu:set-guard';
  export const connect = 'tpu:connect';
  export const detach = 'tpu:detach';
  export const disconnect = 'tpu:disconnect';
  export const environment = 'tpu:new-environment';
  export const job = 'tpu:new-job';
  export const run = 'tpu:run-command';
  export const start = 'tpu:start';
  export const stop = 'tpu:stop';
  export const remove = 'tpu:delete';
  export const memory = 'tpu:memory-profile';
  export const profile = 'tpu:profile';
  export const replace = 'tpu:replace';
  export const report = 'tpu:report-fault';
  export const notebook = 'tpu:new-notebook';
  export const console = 'tpu:new-console';
  export const copy = 'tpu:copy-files';
  export const download = 'tpu:download-file';
  export const example = 'tpu:open-example';
  export const app = 'tpu:open-port';
  export const share = 'tpu:share-folder';
  export const sync = 'tpu:sync-project';
  export const tensorboard = 'tpu:open-tensorboard';
  export const terminal = 'tpu:open-terminal';
  export const grants = 'tpu:grants';
  export const usage = 'tpu:usage';
  export const queued = 'tpu:queued';
  export const tokens = 'tpu:tokens';
  export const setup = 'tpu:check-setup';
  export const tunnel = 'tpu:new-tunnel';
  export const upload = 'tpu:upload-files';
  export const browse = 'tpu:browse-files';
  export const showApp = 'tpu:show-app';
  export const showFiles = 'tpu:show-files';
  export const showJob = 'tpu:show-job';
  export const showRun = 'tpu:show-run';
  export const showTPU = 'tpu:show-tpu';
}

/** The commands that are not about one TPU, in the order of the menus. */
export const GENERAL = [
  CommandIDs.create,
  CommandIDs.attach,
  CommandIDs.usage,
  CommandIDs.queued,
  CommandIDs.grants,
  CommandIDs.tokens,
  CommandIDs.setup,
  CommandIDs.refresh
];

/** The commands that do something to one TPU. */
export const COMMANDS: { [action in Action]: string } = {
  app: CommandIDs.app,
  browse: CommandIDs.browse,
  check: CommandIDs.check,
  chips: CommandIDs.chips,
  connect: CommandIDs.connect,
  console: CommandIDs.console,
  copy: CommandIDs.copy,
  delete: CommandIDs.remove,
  detach: CommandIDs.detach,
  disconnect: CommandIDs.disconnect,
  download: CommandIDs.download,
  environment: CommandIDs.environment,
  example: CommandIDs.example,
  guard: CommandIDs.guard,
  job: CommandIDs.job,
  memory: CommandIDs.memory,
  notebook: CommandIDs.notebook,
  profile: CommandIDs.profile,
  replace: CommandIDs.replace,
  report: CommandIDs.report,
  run: CommandIDs.run,
  share: CommandIDs.share,
  split: CommandIDs.split,
  start: CommandIDs.start,
  stop: CommandIDs.stop,
  sync: CommandIDs.sync,
  tensorboard: CommandIDs.tensorboard,
  terminal: CommandIDs.terminal,
  tunnel: CommandIDs.tunnel,
  upload: CommandIDs.upload
};

/** The commands that show what an action is for. Their part of the extension may be disabled. */
export const SHOWN_BY: { [action in Action]?: string } = {
  app: CommandIDs.showApp,
  browse: CommandIDs.showFiles,
  job: CommandIDs.showJob,
  profile: CommandIDs.showApp,
  run: CommandIDs.showRun,
  tensorboard: CommandIDs.showApp
};

/** How a command that takes no arguments describes them. */
export const NO_ARGUMENTS = { args: { type: 'object', properties: {} } };

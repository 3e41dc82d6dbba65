// The names of the commands.

export namespace CommandIDs {
  export const open = 'tpu:open-panel';
  export const attach = 'tpu:attach-machine';
  export const create = 'tpu:create';
  export const refresh = 'tpu:refresh';
  export const budgets = 'tpu:budgets';
  export const grants = 'tpu:grants';
  export const prices = 'tpu:prices';
  export const usage = 'tpu:usage';
  export const queued = 'tpu:queued';
  export const tokens = 'tpu:tokens';
  export const setup = 'tpu:check-setup';
  export const copySelection = 'tpu:copy-selection';
  export const syncSelection = 'tpu:sync-selection';
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
  CommandIDs.budgets,
  CommandIDs.grants,
  CommandIDs.prices,
  CommandIDs.tokens,
  CommandIDs.setup,
  CommandIDs.refresh
];

// The commands of the palette, the launcher, the menus and the status bar.

import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import { addIcon, LabIcon, refreshIcon } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { availableActions, Action } from '../model/availableActions';
import { Actions } from './actions';
import { ITPU } from '../api';
import { actionIcon, tpuIcon } from '../icons';
import { keyOf } from '../model/resources';
import { actionLabel } from '../labels';

export namespace CommandIDs {
  export const open = 'tpu:open-panel';
  export const create = 'tpu:create';
  export const refresh = 'tpu:refresh';
  export const connect = 'tpu:connect';
  export const disconnect = 'tpu:disconnect';
  export const environment = 'tpu:new-environment';
  export const start = 'tpu:start';
  export const stop = 'tpu:stop';
  export const remove = 'tpu:delete';
  export const notebook = 'tpu:new-notebook';
  export const console = 'tpu:new-console';
  export const app = 'tpu:open-port';
  export const tensorboard = 'tpu:open-tensorboard';
  export const tunnel = 'tpu:new-tunnel';
  export const show = 'tpu:show-app';
}

/** The commands that do something to one TPU. */
export const COMMANDS: { [action in Action]: string } = {
  app: CommandIDs.app,
  connect: CommandIDs.connect,
  console: CommandIDs.console,
  delete: CommandIDs.remove,
  disconnect: CommandIDs.disconnect,
  environment: CommandIDs.environment,
  notebook: CommandIDs.notebook,
  start: CommandIDs.start,
  stop: CommandIDs.stop,
  tensorboard: CommandIDs.tensorboard,
  tunnel: CommandIDs.tunnel
};

const NO_ARGUMENTS = { args: { type: 'object', properties: {} } };

/** Registers all commands. *open* brings the panel to the front. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  actions: Actions,
  open: () => void
): void {
  const { model, trans } = actions;
  const category = trans.__('TPU');

  commands.addCommand(CommandIDs.open, {
    label: args => (args.isPalette ? trans.__('Open TPU Panel') : category),
    caption: trans.__('List, create and connect Cloud TPUs'),
    icon: tpuIcon,
    describedBy: NO_ARGUMENTS,
    execute: open
  });
  commands.addCommand(CommandIDs.create, {
    label: trans.__('New TPU…'),
    caption: trans.__('Create a TPU'),
    icon: addIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          name: { type: 'string', description: trans.__('Its name') },
          type: { type: 'string', description: trans.__('Its type') },
          zone: { type: 'string', description: trans.__('Its zone') }
        }
      }
    },
    execute: args => {
      if (args.name || args.type || args.zone) {
        actions.createForm.fill(args as { name?: string });
      }
      open();
      actions.openCreateForm();
    }
  });
  commands.addCommand(CommandIDs.refresh, {
    label: trans.__('Refresh the List of TPUs'),
    icon: refreshIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => model.refresh()
  });
  for (const action of Object.keys(COMMANDS) as Action[]) {
    addAction(commands, actions, action, open);
  }

  for (const command of [
    CommandIDs.open,
    CommandIDs.create,
    CommandIDs.refresh,
    ...Object.values(COMMANDS)
  ]) {
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
}

function addAction(
  commands: CommandRegistry,
  actions: Actions,
  action: Action,
  open: () => void
): void {
  const { model, trans } = actions;
  const able = () =>
    model.tpus.filter(tpu =>
      availableActions(tpu, model.operationsOf(tpu)).includes(action)
    );
  const named = (args: ReadonlyPartialJSONObject) =>
    able().filter(tpu => !args.tpu || args.tpu === keyOf(tpu));

  commands.addCommand(COMMANDS[action], {
    label: args => {
      const word = actionLabel(action, trans);
      return args.isPalette ? trans.__('%1 (TPU)', word) : word;
    },
    icon: actionIcon(action) as LabIcon | undefined,
    isEnabled: args => named(args).length > 0,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          tpu: {
            type: 'string',
            description: trans.__('The TPU, as zone/name; asked for if missing')
          }
        }
      }
    },
    execute: async args => {
      const tpu = await choose(named(args), actions);
      if (tpu) {
        if (args.isPalette || action === 'environment') {
          // There the user sees how it goes on.
          open();
        }
        await actions.act(action, tpu);
      }
    }
  });
}

/** The only TPU, or the one that the user picks. */
async function choose(
  tpus: ITPU[],
  { trans }: Actions
): Promise<ITPU | undefined> {
  if (tpus.length < 2) {
    return tpus[0];
  }
  const result = await InputDialog.getItem({
    title: trans.__('Which TPU?'),
    items: tpus.map(keyOf)
  });
  return tpus.find(tpu => result.button.accept && keyOf(tpu) === result.value);
}

// The commands of the palette and the menus.

import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import {
  addIcon,
  checkIcon,
  lockIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { Action, whyNotStoppable } from '../model/availableActions';
import { keyOf } from '../model/resources';
import { actionLabel, notStoppableLabel } from '../panel/tpuLabels';
import { ITPU } from '../rest/api';
import { actionIcon } from '../ui/icons';
import { Actions } from './actions';
import { CommandIDs, COMMANDS, GENERAL, NO_ARGUMENTS } from './commandIDs';

/** Registers the commands of the palette and the menus. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  actions: Actions
): void {
  const { model, trans } = actions;
  const category = trans.__('TPU');

  commands.addCommand(CommandIDs.create, {
    label: trans.__('New TPU…'),
    caption: trans.__('Create a TPU'),
    icon: addIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          name: { type: 'string', description: trans.__('Name of the TPU') },
          type: { type: 'string', description: trans.__('TPU type') },
          zone: { type: 'string', description: trans.__('Zone') }
        }
      }
    },
    execute: args => {
      if (args.name || args.type || args.zone) {
        actions.createForm.fill(args as { name?: string });
      }
      actions.openPanel();
      actions.openCreateForm();
    }
  });
  commands.addCommand(CommandIDs.attach, {
    label: trans.__('Attach a Machine…'),
    caption: trans.__('Use a machine that you reach by SSH as a TPU'),
    describedBy: NO_ARGUMENTS,
    execute: async () => {
      actions.openPanel();
      await actions.attach();
    }
  });
  commands.addCommand(CommandIDs.refresh, {
    label: trans.__('Refresh the List of TPUs'),
    icon: refreshIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => model.refresh()
  });
  commands.addCommand(CommandIDs.queued, {
    label: trans.__('Queued Resources…'),
    caption: trans.__('Show the requests that wait at Google'),
    describedBy: NO_ARGUMENTS,
    execute: () => {
      actions.openPanel();
      actions.openQueued();
    }
  });
  commands.addCommand(CommandIDs.budgets, {
    label: trans.__('Budgets…'),
    caption: trans.__('Say what coding agents may spend on TPUs'),
    describedBy: NO_ARGUMENTS,
    execute: () => {
      actions.openPanel();
      actions.openBudgets();
    }
  });
  commands.addCommand(CommandIDs.grants, {
    label: trans.__('Grants…'),
    caption: trans.__('List the TPUs that you may use at no charge'),
    describedBy: NO_ARGUMENTS,
    execute: () => {
      actions.openPanel();
      actions.openGrants();
    }
  });
  commands.addCommand(CommandIDs.usage, {
    label: trans.__('TPU Usage…'),
    caption: trans.__('Show who has which TPUs, and what they cost'),
    describedBy: NO_ARGUMENTS,
    execute: () => {
      actions.openPanel();
      actions.openUsage();
    }
  });
  commands.addCommand(CommandIDs.setup, {
    label: trans.__('Check Setup…'),
    caption: trans.__('Check what can keep a TPU from being created'),
    icon: checkIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => actions.checkSetup()
  });
  commands.addCommand(CommandIDs.tokens, {
    label: trans.__('Tokens…'),
    caption: trans.__(
      'Choose which of this computer’s tokens are passed to TPUs'
    ),
    icon: lockIcon,
    describedBy: NO_ARGUMENTS,
    execute: () => {
      actions.openPanel();
      actions.openTokens();
    }
  });
  for (const action of Object.keys(COMMANDS) as Action[]) {
    addAction(commands, actions, action);
  }

  if (palette) {
    for (const command of GENERAL) {
      palette.addItem({ command, category, args: { isPalette: true } });
    }
    for (const action of Object.keys(COMMANDS) as Action[]) {
      palette.addItem({
        command: COMMANDS[action],
        category,
        args: { isPalette: true }
      });
    }
  }
}

function addAction(
  commands: CommandRegistry,
  actions: Actions,
  action: Action
): void {
  const { model, trans } = actions;
  const able = () =>
    model.tpus.filter(tpu => actions.available(tpu).includes(action));
  const named = (args: ReadonlyPartialJSONObject) =>
    able().filter(tpu => !args.tpu || args.tpu === keyOf(tpu));

  commands.addCommand(COMMANDS[action], {
    label: args => {
      const tpu = args.tpu ? model.tpu(args.tpu as string) : undefined;
      const why = tpu && whyNotStoppable(tpu);
      const label = why
        ? notStoppableLabel(action, why, trans)
        : actionLabel(action, trans);
      return args.isPalette ? trans.__('TPU: %1', label) : label;
    },
    icon: actionIcon(action),
    isEnabled: args => named(args).length > 0,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          tpu: {
            type: 'string',
            description: trans.__(
              'The TPU, as zone/name. Default: the user selects one'
            )
          }
        }
      }
    },
    execute: async args => {
      const tpu = await choose(named(args), actions);
      if (tpu) {
        if (args.isPalette || action === 'environment') {
          // The panel shows the progress.
          actions.openPanel();
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
    title: trans.__('Select a TPU'),
    items: tpus.map(keyOf)
  });
  return tpus.find(tpu => result.button.accept && keyOf(tpu) === result.value);
}

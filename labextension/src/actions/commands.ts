// The commands of the palette and the menus.

import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import {
  addIcon,
  checkIcon,
  LabIcon,
  lockIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { Action } from '../model/availableActions';
import { keyOf } from '../model/resources';
import { ICreateTPU, ITPU } from '../rest/api';
import { trans } from '../ui/translation';
import { Actions } from './actions';
import { CommandIDs, describe, GENERAL, NO_ARGUMENTS } from './commandIDs';
import { ACTIONS, actionLabel } from './table';

/** Registers the commands of the palette and the menus. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  actions: Actions
): void {
  const category = trans.__('TPU');

  commands.addCommand(CommandIDs.create, {
    label: trans.__('New TPU…'),
    caption: trans.__('Create a TPU'),
    icon: addIcon,
    describedBy: describe({
      name: ['string', trans.__('Name of the TPU')],
      type: ['string', trans.__('TPU type')],
      zone: ['string', trans.__('Zone')]
    }),
    execute: async args => {
      const given = args.name || args.type || args.zone;
      actions.openPanel();
      await actions.openCreateForm(
        given ? (args as Partial<ICreateTPU>) : undefined
      );
    }
  });
  for (const { id, inPanel, run, ...options } of generalCommands(actions)) {
    commands.addCommand(id, {
      ...options,
      describedBy: NO_ARGUMENTS,
      execute: async () => {
        if (inPanel) {
          actions.openPanel();
        }
        await run();
      }
    });
  }
  for (const action of Object.keys(ACTIONS) as Action[]) {
    addAction(commands, actions, action);
  }

  const named = Object.values(ACTIONS).map(({ command }) => command);
  for (const command of [...GENERAL, ...named]) {
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
}

interface IGeneralCommand {
  id: string;
  label: string;
  caption?: string;
  icon?: LabIcon;
  /** Whether the panel shows it. */
  inPanel?: boolean;
  run: () => unknown;
}

/** What is not about one TPU, and takes no arguments. */
function generalCommands(actions: Actions): IGeneralCommand[] {
  return [
    {
      id: CommandIDs.attach,
      label: trans.__('Attach a Machine…'),
      caption: trans.__('Use a machine that you reach by SSH as a TPU'),
      inPanel: true,
      run: () => actions.attach()
    },
    {
      id: CommandIDs.usage,
      label: trans.__('TPU Usage…'),
      caption: trans.__('Show who has which TPUs, and what they cost'),
      inPanel: true,
      run: () => actions.openPage('usage')
    },
    {
      id: CommandIDs.queued,
      label: trans.__('Queued Resources…'),
      caption: trans.__('Show the requests that wait at Google'),
      inPanel: true,
      run: () => actions.openPage('queued')
    },
    {
      id: CommandIDs.budgets,
      label: trans.__('Budgets…'),
      caption: trans.__('Say what coding agents may spend on TPUs'),
      inPanel: true,
      run: () => actions.openPage('budgets')
    },
    {
      id: CommandIDs.grants,
      label: trans.__('Grants…'),
      caption: trans.__('List the TPUs that you may use at no charge'),
      inPanel: true,
      run: () => actions.openPage('grants')
    },
    {
      id: CommandIDs.prices,
      label: trans.__('Prices…'),
      caption: trans.__('Show what TPUs cost, and update the prices'),
      inPanel: true,
      run: () => actions.openPage('prices')
    },
    {
      id: CommandIDs.tokens,
      label: trans.__('Tokens…'),
      caption: trans.__(
        'Choose which of this computer’s tokens are passed to TPUs'
      ),
      icon: lockIcon,
      inPanel: true,
      run: () => actions.openPage('tokens')
    },
    {
      id: CommandIDs.setup,
      label: trans.__('Check Setup…'),
      caption: trans.__('Check what can keep a TPU from being created'),
      icon: checkIcon,
      run: () => actions.checkSetup()
    },
    {
      id: CommandIDs.refresh,
      label: trans.__('Refresh the List of TPUs'),
      icon: refreshIcon,
      run: () => actions.model.refresh()
    }
  ];
}

function addAction(
  commands: CommandRegistry,
  actions: Actions,
  action: Action
): void {
  const { model } = actions;
  const able = () =>
    model.tpus.filter(tpu => actions.available(tpu).includes(action));
  const named = (args: ReadonlyPartialJSONObject) =>
    able().filter(tpu => !args.tpu || args.tpu === keyOf(tpu));

  commands.addCommand(ACTIONS[action].command, {
    label: args => {
      const tpu = args.tpu ? model.tpu(args.tpu as string) : undefined;
      const label = actionLabel(action, tpu);
      return args.isPalette ? trans.__('TPU: %1', label) : label;
    },
    icon: ACTIONS[action].icon,
    isEnabled: args => named(args).length > 0,
    describedBy: describe({
      tpu: [
        'string',
        trans.__('The TPU, as zone/name. Default: the user selects one')
      ]
    }),
    execute: async args => {
      const tpu = await chooseTPU(named(args));
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
export async function chooseTPU(tpus: ITPU[]): Promise<ITPU | undefined> {
  if (tpus.length < 2) {
    return tpus[0];
  }
  const result = await InputDialog.getItem({
    title: trans.__('Select a TPU'),
    items: tpus.map(keyOf)
  });
  return tpus.find(tpu => result.button.accept && keyOf(tpu) === result.value);
}

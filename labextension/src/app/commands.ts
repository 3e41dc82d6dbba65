// The commands of the palette and the menus.

import { ICommandPalette } from '@jupyterlab/apputils';
import {
  addIcon,
  checkIcon,
  LabIcon,
  lockIcon,
  refreshIcon
} from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs, GENERAL } from '../actions/commandIDs';
import { ACTIONS, actionLabel } from '../actions/table';
import { trans } from '../language/translation';
import { Action } from '../model/availableActions';
import { ICreateTPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { chooseTPU } from '../ui/chooseTPU';
import { describe, NO_ARGUMENTS } from '../ui/described';
import { ListName } from '../ui/viewState';
import { Actions } from './actions';

/** Registers the commands of the palette and the menus. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  actions: Actions
): void {
  const add = (
    id: string,
    label: string,
    run: (args: ReadonlyPartialJSONObject) => unknown,
    options: { caption?: string; icon?: LabIcon } = {},
    describedBy = NO_ARGUMENTS
  ) => {
    commands.addCommand(id, {
      label,
      ...options,
      describedBy,
      execute: async args => {
        await run(args);
      }
    });
  };
  const addPage = (
    id: string,
    page: ListName,
    label: string,
    caption: string,
    icon?: LabIcon
  ) => add(id, label, () => actions.openPage(page), { caption, icon });

  add(
    CommandIDs.create,
    trans.__('New TPU…'),
    args => {
      const given = args.name || args.type || args.zone;
      actions.openPanel();
      return actions.openCreateForm(
        given ? (args as Partial<ICreateTPU>) : undefined
      );
    },
    { caption: trans.__('Create a TPU'), icon: addIcon },
    describe({
      name: ['string', trans.__('Name of the TPU')],
      type: ['string', trans.__('TPU type')],
      zone: ['string', trans.__('Zone')]
    })
  );
  add(
    CommandIDs.attach,
    trans.__('Attach a Machine…'),
    async () => {
      actions.openPanel();
      const { attachMachine } = await import('../lifecycle/attach');
      await attachMachine(actions.model);
    },
    { caption: trans.__('Use a machine that you reach by SSH as a TPU') }
  );
  addPage(
    CommandIDs.usage,
    'usage',
    trans.__('TPU Usage…'),
    trans.__('Show who has which TPUs, and what they cost')
  );
  addPage(
    CommandIDs.queued,
    'queued',
    trans.__('Queued Resources…'),
    trans.__('Show the requests that wait at Google')
  );
  addPage(
    CommandIDs.budgets,
    'budgets',
    trans.__('Budgets…'),
    trans.__('Say what coding agents may spend on TPUs')
  );
  addPage(
    CommandIDs.grants,
    'grants',
    trans.__('Grants…'),
    trans.__('List the TPUs that you may use at no charge')
  );
  addPage(
    CommandIDs.prices,
    'prices',
    trans.__('Prices…'),
    trans.__('Show what TPUs cost, and update the prices')
  );
  addPage(
    CommandIDs.tokens,
    'tokens',
    trans.__('Tokens…'),
    trans.__('Choose which of this computer’s tokens are passed to TPUs'),
    lockIcon
  );
  add(
    CommandIDs.setup,
    trans.__('Check Setup…'),
    async () => {
      const { checkSetup } = await import('../setup/doctorDialogs');
      await checkSetup(actions.model);
    },
    {
      caption: trans.__('Check what can keep a TPU from being created'),
      icon: checkIcon
    }
  );
  add(
    CommandIDs.refresh,
    trans.__('Refresh the List of TPUs'),
    () => actions.model.refresh(),
    { icon: refreshIcon }
  );
  for (const action of Object.keys(ACTIONS) as Action[]) {
    addAction(commands, actions, action);
  }

  const category = trans.__('TPU');
  const named = Object.values(ACTIONS).map(({ command }) => command);
  for (const command of [...GENERAL, ...named]) {
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
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

// The menu with the actions for one TPU.

import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { CommandIDs, GENERAL } from '../actions/commandIDs';
import { ACTIONS } from '../actions/table';
import { trans } from '../language/translation';
import { Action, whyNotStoppable } from '../model/availableActions';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';

/** The actions of submenus. */
const CHIPS: Action[] = ['chips', 'split', 'slices', 'profile', 'memory'];
const FILES: Action[] = [
  'browse',
  'upload',
  'download',
  'copy',
  'sync',
  'share'
];
const PORTS: Action[] = ['tensorboard', 'ray', 'serve', 'app', 'tunnel'];

/** Actions in a menu of their own. */
interface ISubmenu {
  menu: Menu;
  actions: Action[];
}

/** Submenus are entries of the menu for screen readers, too. */
class Renderer extends MenuSvg.Renderer {
  createItemARIA(data: Menu.IRenderData) {
    return { role: 'menuitem' as const, ...super.createItemARIA(data) };
  }
}

export class TPUMenu extends Menu {
  constructor(commands: CommandRegistry) {
    // Not a MenuSvg: that one changes its submenus again each time they are added.
    const options = { commands, renderer: new Renderer() };
    super(options);
    this.addClass('jp-tpu-Menu');
    this.aboutToClose.connect(this._onClose, this);
    const submenu = (label: string, icon: Action, actions: Action[]) => {
      const menu = new Menu(options);
      menu.addClass('jp-tpu-Menu');
      menu.title.label = label;
      menu.title.icon = ACTIONS[icon].icon;
      return { menu, actions };
    };
    // In the order of use; deleting comes last.
    this._groups = [
      ['connect', 'notebook', 'console', 'example', 'terminal', 'run', 'job'],
      [
        submenu(trans.__('Files'), 'browse', FILES),
        submenu(trans.__('Web Apps and Ports'), 'app', PORTS),
        submenu(trans.__('Chips and Profiles'), 'memory', CHIPS),
        'check'
      ],
      ['environment', 'sessions', 'disconnect'],
      ['start', 'guard', 'stop'],
      ['report', 'replace', 'detach', 'delete']
    ];
  }

  dispose(): void {
    for (const entry of this._groups.flat()) {
      if (typeof entry !== 'string') {
        entry.menu.dispose();
      }
    }
    super.dispose();
  }

  /** Opens below *button*, which has the focus again when the menu closes. */
  openFor(button: HTMLElement, able: Action[], tpu: ITPU): void {
    // Stopping is what people look for to save money: where it is impossible, the entry says why.
    const explained =
      tpu.state === 'READY' && !tpu.attached && whyNotStoppable(tpu) !== null;
    const add = (menu: Menu, action: Action) => {
      if (able.includes(action) || (action === 'stop' && explained)) {
        menu.addItem({
          command: ACTIONS[action].command,
          args: { tpu: keyOf(tpu) }
        });
        if (action === 'environment') {
          menu.addItem({ command: CommandIDs.tokens }); // of all TPUs
        }
      }
    };
    this.clearItems();
    for (const group of this._groups) {
      this.addItem({ type: 'separator' }); // not shown where it separates nothing
      for (const entry of group) {
        if (typeof entry === 'string') {
          add(this, entry);
          continue;
        }
        entry.menu.clearItems();
        entry.actions.forEach(action => add(entry.menu, action));
        if (entry.menu.items.length > 0) {
          this.addItem({ type: 'submenu', submenu: entry.menu });
        }
      }
    }
    this._openBelow(button);
  }

  /** Opens with what is not about one TPU. */
  openForAll(button: HTMLElement): void {
    this.clearItems();
    for (const command of GENERAL) {
      this.addItem({ command });
    }
    this._openBelow(button);
  }

  private _openBelow(button: HTMLElement): void {
    this._button = button;
    const { left, bottom } = button.getBoundingClientRect();
    this.open(left, bottom);
  }

  private _onClose(): void {
    this._button?.focus();
    this._button = null;
  }

  private _button: HTMLElement | null = null;
  private readonly _groups: (Action | ISubmenu)[][];
}

// The menu with the actions for one TPU.

import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { Action } from '../model/availableActions';
import { COMMANDS } from '../actions/commandIDs';

/** In the order of use; deleting comes last. */
const ORDER: Action[] = [
  'notebook',
  'console',
  'example',
  'connect',
  'environment',
  'tensorboard',
  'app',
  'tunnel',
  'disconnect',
  'start',
  'stop',
  'delete'
];

export class TPUMenu extends Menu {
  constructor(commands: CommandRegistry) {
    super({ commands });
    this.aboutToClose.connect(this._onClose, this);
  }

  /** Opens below *button*, which has the focus again when the menu closes. */
  openFor(button: HTMLElement, able: Action[], tpu: string): void {
    const actions = ORDER.filter(action => able.includes(action));
    this.clearItems();
    for (const action of actions) {
      if (action === 'delete' && actions.length > 1) {
        this.addItem({ type: 'separator' });
      }
      this.addItem({ command: COMMANDS[action], args: { tpu } });
    }
    this._button = button;
    const { left, bottom } = button.getBoundingClientRect();
    this.open(left, bottom);
  }

  private _onClose(): void {
    this._button?.focus();
    this._button = null;
  }

  private _button: HTMLElement | null = null;
}

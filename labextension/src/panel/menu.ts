// The menu with the actions for one TPU.

import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { CommandIDs, COMMANDS } from '../actions/commandIDs';
import { ITPU } from '../api';
import { Action, whyNotStoppable } from '../model/availableActions';
import { keyOf } from '../model/resources';

/** In the order of use; deleting comes last. */
const ORDER: Action[] = [
  'notebook',
  'console',
  'example',
  'terminal',
  'run',
  'job',
  'check',
  'chips',
  'split',
  'profile',
  'memory',
  'browse',
  'upload',
  'download',
  'copy',
  'sync',
  'share',
  'connect',
  'environment',
  'tensorboard',
  'app',
  'tunnel',
  'disconnect',
  'start',
  'guard',
  'stop',
  'detach',
  'delete'
];

export class TPUMenu extends Menu {
  constructor(commands: CommandRegistry) {
    super({ commands });
    this.addClass('jp-tpu-Menu');
    this.aboutToClose.connect(this._onClose, this);
  }

  /** Opens below *button*, which has the focus again when the menu closes. */
  openFor(button: HTMLElement, able: Action[], tpu: ITPU): void {
    // Stopping is what people look for to save money: where it is impossible, the entry says why.
    const explained =
      tpu.state === 'READY' && !tpu.attached && whyNotStoppable(tpu) !== null;
    const actions = ORDER.filter(
      action => able.includes(action) || (action === 'stop' && explained)
    );
    this.clearItems();
    for (const action of actions) {
      if (['delete', 'detach'].includes(action) && actions.length > 1) {
        this.addItem({ type: 'separator' });
      }
      this.addItem({ command: COMMANDS[action], args: { tpu: keyOf(tpu) } });
      if (action === 'environment') {
        this.addItem({ command: CommandIDs.tokens }); // of all TPUs
      }
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

// The sidebar panel: a frame, whose content is loaded when it is seen.

import { ReactWidget } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import React, { lazy, Suspense } from 'react';

import { Actions } from '../actions/actions';
import { tpuIcon } from '../ui/icons';
import { trans } from '../ui/translation';
import { TPUMenu } from './menu';

const Content = lazy(() => import('./content'));

/** Seconds between two looks at the server while the panel is visible. */
const REFRESH = 120;

export class TPUPanel extends ReactWidget {
  constructor(
    private _actions: Actions,
    commands: CommandRegistry
  ) {
    super();
    this._menu = new TPUMenu(commands);
    this.id = 'jp-tpu-panel';
    this.addClass('jp-tpu-Panel');
    this.title.icon = tpuIcon;
    this.title.caption = trans.__('TPU');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('TPU'));
  }

  dispose(): void {
    this._poll.dispose();
    this._menu.dispose();
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._load();
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._load();
    const { model, view } = this._actions;
    view.visible = true;
    void model.loadCatalog();
    void this._poll.schedule({ interval: REFRESH * 1000, phase: 'started' });
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._actions.view.visible = false;
    void this._poll.stop();
  }

  protected render(): JSX.Element {
    return this._shown ? (
      <Suspense fallback={null}>
        <Content actions={this._actions} menu={this._menu} />
      </Suspense>
    ) : (
      <></>
    );
  }

  /** Its content is loaded when somebody looks at it. */
  private _load(): void {
    if (this.isVisible && !this._shown) {
      this._shown = true;
      this.update();
    }
  }

  private _shown = false;
  private _menu: TPUMenu;

  // Events say what changes; somebody who looks keeps the server looking at what it costs.
  private _poll = new Poll({
    auto: false,
    name: 'jupyter-tpu:panel',
    factory: () => this._actions.model.refresh(false),
    frequency: { interval: REFRESH * 1000, backoff: false },
    standby: 'when-hidden'
  });
}

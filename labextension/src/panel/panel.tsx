// The sidebar panel: a frame, whose content is loaded when it is seen.

import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Poll } from '@lumino/polling';
import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { ActionsProvider } from '../actions/useActions';
import { trans } from '../language/translation';
import { attempt } from '../ui/attempt';
import { tpuIcon } from '../ui/icons';

/** Seconds between two looks at the server while the panel is visible. */
const REFRESH = 120;

export class TPUPanel extends ReactWidget {
  constructor(private _actions: IPanelActions) {
    super();
    this.id = 'jp-tpu-panel';
    this.addClass('jp-tpu-Panel');
    this.title.icon = tpuIcon;
    this.title.caption = trans.__('TPU');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('TPU'));
  }

  dispose(): void {
    this._poll.dispose();
    super.dispose();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    void attempt(this._load());
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void attempt(this._load());
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
    const Content = this._content;
    return (
      <ActionsProvider actions={this._actions}>
        {Content && <Content />}
      </ActionsProvider>
    );
  }

  /** Its content is loaded when somebody looks at it. */
  private async _load(): Promise<void> {
    if (this.isVisible && !this._content) {
      const [content] = await Promise.all([
        import('./content'),
        this._actions.loadForms()
      ]);
      this._content = content.default;
      this.update();
    }
  }

  private _content?: () => JSX.Element;

  // Events say what changes; somebody who looks keeps the server looking at what it costs.
  private _poll = new Poll({
    auto: false,
    name: 'jupyter-tpu:panel',
    factory: () => this._actions.model.refresh(false),
    frequency: { interval: REFRESH * 1000, backoff: false },
    standby: 'when-hidden'
  });
}

// A tab with a web app of a host, framed from the app's own origin.

import { MainAreaWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import {
  Button,
  IFrame,
  launchIcon,
  ReactWidget,
  refreshIcon,
  ToolbarButton
} from '@jupyterlab/ui-components';
import { Panel } from '@lumino/widgets';
import React from 'react';

import { EmptyState } from '../panel/elements';
import { tpuIcon } from '../icons';
import { TPUModel } from '../model/model';
import { AppOpener } from './opener';
import { IAppTarget, targetKey } from './target';
import { Failure } from '../model/client';
import { failureText } from '../labels/failures';
import { currentStep } from '../labels/operations';

/**
 * Nothing that leads out of the frame. Its own origin is allowed: it is not Jupyter's, and cookies and
 * storage don't work without it.
 */
const SANDBOX: IFrame.SandboxExceptions[] = [
  'allow-scripts',
  'allow-same-origin',
  'allow-forms',
  'allow-downloads',
  'allow-modals',
  'allow-popups'
];

/** What is shown instead of the app. */
interface IMessage {
  title: string;
  text?: string;
  hint?: string;
  busy?: boolean;
  /** The label of the button that opens the app again. */
  retry?: string;
}

/** The app, or why it is not there. */
class AppView extends Panel {
  constructor(
    readonly target: IAppTarget,
    private _model: TPUModel,
    private _opener: AppOpener,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-App');
    this._message = ReactWidget.create(<></>);
    this.addWidget(this._message);
    this.addWidget(this._frame);
    _model.stateChanged.connect(this._onModel, this);
    void this.load();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._model.stateChanged.disconnect(this._onModel, this);
      super.dispose();
    }
  }

  /** Opens the app; *restart*: even TensorBoard that is known to run is checked on its host. */
  async load(restart = false): Promise<void> {
    const trans = this._trans;
    const { name } = this.target;
    const attempt = (this._attempt += 1);
    const title = trans.__('Opening %1…', name);
    this._app = null;
    this._showMessage({ title, busy: true });
    try {
      const { id, url } = await this._opener.open(
        this.target,
        window.location.origin,
        restart,
        operation =>
          this._showMessage({
            title,
            text: currentStep(operation, trans),
            busy: true
          })
      );
      if (attempt === this._attempt && !this.isDisposed) {
        this._app = id;
        this._frame.url = url;
        this._show(this._frame);
      }
    } catch (error) {
      if (attempt === this._attempt && !this.isDisposed) {
        const { message, hint } = failureText(Failure.from(error), trans);
        this._showMessage({
          title: trans.__('%1 could not be opened', name),
          text: message,
          hint,
          retry: trans.__('Try Again')
        });
      }
    }
  }

  /** It may have been closed in the panel, or its server has ended. */
  private _onModel(): void {
    if (this._app && this._model.isClosed(this._app)) {
      this._app = null;
      this._frame.url = 'about:blank';
      this._showMessage({
        title: this._trans.__('%1 is closed', this.target.name),
        text: this._trans.__(
          'It was closed, or the Jupyter server was restarted.'
        ),
        retry: this._trans.__('Open Again')
      });
    }
  }

  private _showMessage(message: IMessage): void {
    const { retry, ...texts } = message;
    const next = ReactWidget.create(
      <EmptyState {...texts}>
        {retry && (
          <Button
            className="jp-tpu-Button"
            onClick={() => void this.load(true)}
          >
            {retry}
          </Button>
        )}
      </EmptyState>
    );
    next.addClass('jp-tpu-Panel');
    this._message.dispose();
    this._message = next;
    this.insertWidget(0, next);
    this._show(next);
  }

  private _show(shown: ReactWidget | IFrame): void {
    this._message.setHidden(shown !== this._message);
    this._frame.setHidden(shown !== this._frame);
  }

  private _app: string | null = null;
  private _attempt = 0;
  private _frame = new IFrame({ sandbox: SANDBOX });
  private _message: ReactWidget;
}

/** The tab. */
export class AppTab extends MainAreaWidget<AppView> {
  constructor(
    target: IAppTarget,
    model: TPUModel,
    opener: AppOpener,
    trans: TranslationBundle
  ) {
    const content = new AppView(target, model, opener, trans);
    super({ content });
    const where = target.host
      ? trans.__('%1 host %2', target.tpu, target.host)
      : target.tpu;
    const what = target.logdir || trans.__('port %1', target.port);
    this.id = `jp-tpu-app ${targetKey(target)}`;
    this.title.label = target.name;
    this.title.caption = `${what} · ${where}`;
    this.title.icon = tpuIcon;
    this.title.closable = true;
    this.toolbar.addItem(
      'reload',
      new ToolbarButton({
        icon: refreshIcon,
        tooltip: trans.__('Reload'),
        onClick: () => void content.load(true)
      })
    );
    this.toolbar.addItem(
      'window',
      new ToolbarButton({
        icon: launchIcon,
        tooltip: trans.__('Open in a new window'),
        onClick: () => void opener.openWindow(target)
      })
    );
  }

  get target(): IAppTarget {
    return this.content.target;
  }
}

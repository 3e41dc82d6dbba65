// A tab with a page of a host, framed from the page's own origin.

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

import { IApp, IAppVisit, IOperation } from '../api';
import { EmptyState } from '../panel/elements';
import { tpuIcon } from '../icons';
import { TPUModel } from '../model/model';
import { IAppTarget, targetKey, targetOf, tpuOf } from './target';
import { reachableAddress } from './address';
import { Failure } from '../model/client';
import { currentStep, failureText } from '../labels';

/**
 * Nothing that leads out of the frame. Its own origin is allowed: it is another one than ours, and
 * without it neither cookies nor storage work.
 */
const SANDBOX: IFrame.SandboxExceptions[] = [
  'allow-scripts',
  'allow-same-origin',
  'allow-forms',
  'allow-downloads',
  'allow-modals',
  'allow-popups'
];

/** What is shown instead of the page. */
interface IMessage {
  title: string;
  text?: string;
  hint?: string;
  busy?: boolean;
  /** The word on the button that opens the page again. */
  again?: string;
}

/** The page, or why it is not there. */
class AppView extends Panel {
  constructor(
    readonly place: IAppTarget,
    private _model: TPUModel,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-App');
    this._said = ReactWidget.create(<></>);
    this.addWidget(this._said);
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

  /** Opens the page; *anew*: even a TensorBoard that is known to run is looked for on its host. */
  async load(anew = false): Promise<void> {
    const trans = this._trans;
    const attempt = (this._attempt += 1);
    this._app = null;
    this._say({ title: trans.__('Opening %1…', this.place.name), busy: true });
    try {
      const { app, visit } = await this._open(window.location.origin, anew);
      const url = await reachableAddress(visit, window.location, trans);
      if (attempt === this._attempt && !this.isDisposed) {
        this._app = app.id;
        this._frame.url = url;
        this._show(this._frame);
      }
    } catch (error) {
      if (attempt === this._attempt) {
        const { message, hint } = failureText(Failure.from(error), trans);
        this._say({
          title: trans.__('%1 is not open', this.place.name),
          text: message,
          hint,
          again: trans.__('Try Again')
        });
      }
    }
  }

  /** Opens it in a window of its own, which needs an address of its own. */
  async openWindow(): Promise<void> {
    // Opened at once, or the browser takes it for an advertisement.
    const opened = window.open('about:blank', '_blank');
    try {
      const { visit } = await this._open('');
      const url = await reachableAddress(visit, window.location, this._trans);
      if (opened) {
        opened.opener = null;
        opened.location.replace(url);
      }
    } catch (error) {
      opened?.close();
      throw error;
    }
  }

  private async _open(
    framedBy: string,
    anew = false
  ): Promise<{ app: IApp; visit: IAppVisit }> {
    const { host, logdir, name, path, port } = this.place;
    const tpu = tpuOf(this.place);
    const known = this._model
      .apps(tpu)
      .find(one => targetKey(targetOf(one)) === targetKey(this.place));
    if (known && !anew) {
      return {
        app: known,
        visit: await this._model.visitApp(known.id, framedBy)
      };
    }
    const app = logdir
      ? await this._model.openTensorBoard(tpu, logdir, host, operation =>
          this._showProgress(operation)
        )
      : await this._model.openApp(tpu, { port, host, path, name });
    return { app, visit: await this._model.visitApp(app.id, framedBy) };
  }

  private _showProgress(operation: IOperation): void {
    this._say({
      title: this._trans.__('Opening %1…', this.place.name),
      text: currentStep(operation, this._trans),
      busy: true
    });
  }

  /** It was closed in the panel, or its server has ended. */
  private _onModel(): void {
    if (this._app && this._model.isGone(this._app)) {
      this._app = null;
      this._frame.url = 'about:blank';
      this._say({
        title: this._trans.__('%1 is closed', this.place.name),
        text: this._trans.__(
          'It was closed, or the Jupyter server started anew.'
        ),
        again: this._trans.__('Open Again')
      });
    }
  }

  private _say(message: IMessage): void {
    const { again, ...said } = message;
    const next = ReactWidget.create(
      <EmptyState {...said}>
        {again && (
          <Button
            className="jp-tpu-Button"
            onClick={() => void this.load(true)}
          >
            {again}
          </Button>
        )}
      </EmptyState>
    );
    next.addClass('jp-tpu-Panel');
    this._said.dispose();
    this._said = next;
    this.insertWidget(0, next);
    this._show(next);
  }

  private _show(shown: ReactWidget | IFrame): void {
    this._said.setHidden(shown !== this._said);
    this._frame.setHidden(shown !== this._frame);
  }

  private _app: string | null = null;
  private _attempt = 0;
  private _frame = new IFrame({ sandbox: SANDBOX });
  private _said: ReactWidget;
}

/** The tab. */
export class AppTab extends MainAreaWidget<AppView> {
  constructor(place: IAppTarget, model: TPUModel, trans: TranslationBundle) {
    const content = new AppView(place, model, trans);
    super({ content });
    const where = place.host
      ? trans.__('%1 host %2', place.tpu, place.host)
      : place.tpu;
    const what = place.logdir || trans.__('port %1', place.port);
    this.id = `jp-tpu-app ${targetKey(place)}`;
    this.title.label = place.name;
    this.title.caption = `${what} · ${where}`;
    this.title.icon = tpuIcon;
    this.title.closable = true;
    this.toolbar.addItem(
      'reload',
      new ToolbarButton({
        icon: refreshIcon,
        tooltip: trans.__('Open it from the start'),
        onClick: () => void content.load(true)
      })
    );
    this.toolbar.addItem(
      'window',
      new ToolbarButton({
        icon: launchIcon,
        tooltip: trans.__('Open in a window of its own'),
        onClick: () => void content.openWindow()
      })
    );
  }

  get place(): IAppTarget {
    return this.content.place;
  }
}

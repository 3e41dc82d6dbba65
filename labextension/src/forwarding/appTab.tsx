// A tab with a web app of a host, framed from the app's own origin.

import { MainAreaWidget } from '@jupyterlab/apputils';
import {
  IFrame,
  launchIcon,
  ReactWidget,
  refreshIcon,
  ToolbarButton
} from '@jupyterlab/ui-components';
import { Panel } from '@lumino/widgets';
import React from 'react';

import { TPUModel } from '../model/model';
import { currentStep } from '../operations/operationLabels';
import { Failure } from '../rest/failure';
import { Alert, EmptyState, TextButton } from '../ui/elements';
import { failureText } from '../ui/failures';
import { tpuIcon } from '../ui/icons';
import { trans } from '../ui/translation';
import { AppOpener } from './appOpener';
import { canStoreInFrame } from './storage';
import { IAppTarget, targetKey } from './target';

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

/** A page instead of the app. */
interface IMessage {
  title: string;
  text?: string;
  hint?: string;
  busy?: boolean;
  buttons?: IButton[];
}

interface IButton {
  label: string;
  onClick: () => void;
}

/** The app, or why it is not there. */
class AppView extends Panel {
  constructor(
    readonly target: IAppTarget,
    private _model: TPUModel,
    private _opener: AppOpener
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
    const attempt = (this._attempt += 1);
    const title = trans.__('Opening %1…', this.target.name);
    this._app = null;
    this._showMessage({ title, busy: true });
    try {
      const { id, url, storageCheck } = await this._opener.open(
        this.target,
        window.location.origin,
        { restart, allowMissing: this._allowMissing },
        operation =>
          this._showMessage({
            title,
            text: currentStep(operation),
            busy: true
          })
      );
      const canStore =
        !storageCheck || (await canStoreInFrame(storageCheck, SANDBOX));
      if (attempt === this._attempt && !this.isDisposed) {
        this._app = id;
        if (canStore) {
          this._showApp(url);
        } else {
          this._showWithoutStorage(url);
        }
      }
    } catch (error) {
      if (attempt === this._attempt && !this.isDisposed) {
        this._showFailure(Failure.from(error));
      }
    }
  }

  /** It may have been closed in the panel, or its server has ended. */
  private _onModel(): void {
    if (this._app && this._model.isClosed(this._app)) {
      this._app = null;
      this._frame.url = 'about:blank';
      this._showMessage({
        title: trans.__('%1 is closed', this.target.name),
        text: trans.__('It was closed, or the Jupyter server was restarted.'),
        buttons: [this._reload(trans.__('Open Again'))]
      });
    }
  }

  /** TensorBoard does not work without storage; of other apps that is not known. */
  private _showWithoutStorage(url: string): void {
    const { logdir, name } = this.target;
    const text = trans.__('Your browser blocks storage for pages in this tab.');
    const openWindow = {
      label: trans.__('Open in a New Window'),
      onClick: () => void this._opener.openWindow(this.target)
    };
    if (logdir) {
      this._showMessage({
        title: trans.__('%1 does not work in this tab', name),
        text,
        hint: trans.__('It works in a window of its own.'),
        buttons: [openWindow]
      });
      return;
    }
    const dismiss = {
      label: trans.__('Dismiss'),
      onClick: () => this._message.hide()
    };
    this._showApp(
      url,
      <Alert
        kind="warning"
        message={text}
        hint={trans.__('If this app does not work, open it in a new window.')}
      >
        {buttons([openWindow, dismiss])}
      </Alert>
    );
  }

  private _showFailure(failure: Failure): void {
    const { name } = this.target;
    const retry = this._reload(trans.__('Try Again'));
    if (failure.reason === 'NO_FOLDER') {
      const openAnyway = this._reload(trans.__('Open Anyway'), true);
      this._showMessage({
        title: trans.__('%1 has nothing to show', name),
        text: failure.message,
        hint: trans.__(
          'Check its path. If your program creates it later, open %1 anyway: it shows the logs when they exist.',
          name
        ),
        buttons: [openAnyway, retry]
      });
      return;
    }
    const { message, hint } = failureText(failure);
    this._showMessage({
      title: trans.__('%1 could not be opened', name),
      text: message,
      hint,
      buttons: [retry]
    });
  }

  private _reload(label: string, allowMissing = this._allowMissing): IButton {
    const onClick = () => {
      this._allowMissing = allowMissing;
      void this.load(true);
    };
    return { label, onClick };
  }

  private _showMessage({ buttons: offered = [], ...texts }: IMessage): void {
    this._replaceMessage(
      <EmptyState {...texts}>
        {offered.length > 0 && buttons(offered)}
      </EmptyState>
    );
    this._frame.hide();
  }

  /** *notice*: above the app. */
  private _showApp(url: string, notice?: JSX.Element): void {
    this._replaceMessage(notice ?? <></>);
    this._message.setHidden(!notice);
    this._frame.url = url;
    this._frame.show();
  }

  private _replaceMessage(content: JSX.Element): void {
    this._message.dispose();
    this._message = ReactWidget.create(content);
    this._message.addClass('jp-tpu-Panel');
    this.insertWidget(0, this._message);
  }

  private _app: string | null = null;
  private _attempt = 0;
  /** Whether TensorBoard may show a folder that does not exist yet. */
  private _allowMissing = false;
  private _frame = new IFrame({ sandbox: SANDBOX });
  private _message: ReactWidget;
}

function buttons(offered: IButton[]): JSX.Element[] {
  return offered.map(({ label, onClick }) => (
    <TextButton key={label} onClick={onClick}>
      {label}
    </TextButton>
  ));
}

/** The tab. */
export class AppTab extends MainAreaWidget<AppView> {
  constructor(target: IAppTarget, model: TPUModel) {
    const opener = new AppOpener(model);
    const content = new AppView(target, model, opener);
    super({ content });
    const where = target.host
      ? trans.__('%1 host %2', target.tpu, target.host)
      : target.tpu;
    const what = target.logdir || trans.__('port %1', target.port);
    this.id = `jp-tpu-app ${targetKey(target)}`;
    this.title.label = target.name;
    this.title.caption = `${what} · ${where}`;
    this.title.icon = tpuIcon;
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
}

// A tab with a web app of a host, framed from the app's own origin.

import { MainAreaWidget } from '@jupyterlab/apputils';
import {
  launchIcon,
  ReactWidget,
  refreshIcon,
  ToolbarButton
} from '@jupyterlab/ui-components';
import React from 'react';

import { trans } from '../language/translation';
import { IAppTarget, targetKey } from '../model/appTarget';
import { TPUModel } from '../model/model';
import { currentStep } from '../model/operationLabels';
import { Failure } from '../rest/failure';
import { failureText } from '../rest/failureText';
import { Alert, EmptyState, TextButton } from '../ui/elements';
import { createTab } from '../ui/tabs';
import { AppOpener } from './appOpener';
import { canStoreInFrame } from './storage';

/**
 * Nothing that leads out of the frame. Its own origin is allowed: it is not Jupyter's, and cookies and
 * storage don't work without it.
 */
const SANDBOX = [
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
}

/** The app, or why it is not there. */
class AppView extends ReactWidget {
  constructor(
    readonly target: IAppTarget,
    private _model: TPUModel,
    private _opener: AppOpener
  ) {
    super();
    this.addClass('jp-tpu-App');
    _model.stateChanged.connect(this._onModel, this);
    void this.load();
  }

  /** Opens the app; *restart*: even TensorBoard that is known to run is checked on its host. */
  async load(restart = false): Promise<void> {
    const attempt = (this._attempt += 1);
    const isLast = () => attempt === this._attempt && !this.isDisposed;
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
      if (isLast()) {
        this._app = id;
        if (canStore) {
          this._showApp(url);
        } else {
          this._showWithoutStorage(url);
        }
      }
    } catch (error) {
      if (isLast()) {
        this._showFailure(Failure.from(error));
      }
    }
  }

  protected render(): JSX.Element {
    return this._content;
  }

  /** It may have been closed in the panel, or its server has ended. */
  private _onModel(): void {
    if (this._app && this._model.isClosed(this._app)) {
      this._app = null;
      this._showMessage(
        {
          title: trans.__('%1 is closed', this.target.name),
          text: trans.__('It was closed, or the Jupyter server was restarted.')
        },
        this._reload(trans.__('Open Again'))
      );
    }
  }

  /** TensorBoard does not work without storage; of other apps that is not known. */
  private _showWithoutStorage(url: string): void {
    const { logdir, name } = this.target;
    const text = trans.__('Your browser blocks storage for pages in this tab.');
    const openWindow = (
      <TextButton onClick={() => void this._opener.openWindow(this.target)}>
        {trans.__('Open in a New Window')}
      </TextButton>
    );
    if (logdir) {
      const title = trans.__('%1 does not work in this tab', name);
      const hint = trans.__('It works in a window of its own.');
      this._showMessage({ title, text, hint }, openWindow);
      return;
    }
    this._showApp(
      url,
      <Alert
        kind="warning"
        message={text}
        hint={trans.__('If this app does not work, open it in a new window.')}
      >
        {openWindow}
        <TextButton onClick={() => this._showApp(url)}>
          {trans.__('Dismiss')}
        </TextButton>
      </Alert>
    );
  }

  private _showFailure(failure: Failure): void {
    const { name } = this.target;
    const retry = this._reload(trans.__('Try Again'));
    if (failure.reason !== 'NO_FOLDER') {
      const { message, hint } = failureText(failure);
      const title = trans.__('%1 could not be opened', name);
      this._showMessage({ title, text: message, hint }, retry);
      return;
    }
    this._showMessage(
      {
        title: trans.__('%1 has nothing to show', name),
        text: failure.message,
        hint: trans.__(
          'Check its path. If your program creates it later, open %1 anyway: it shows the logs when they exist.',
          name
        )
      },
      <>
        {this._reload(trans.__('Open Anyway'), true)}
        {retry}
      </>
    );
  }

  private _reload(label: string, allowMissing = this._allowMissing) {
    const onClick = () => {
      this._allowMissing = allowMissing;
      void this.load(true);
    };
    return <TextButton onClick={onClick}>{label}</TextButton>;
  }

  private _showMessage(texts: IMessage, buttons?: JSX.Element): void {
    this._show(
      <div className="jp-tpu-Panel">
        <EmptyState {...texts}>{buttons}</EmptyState>
      </div>
    );
  }

  /** *notice*: above the app. */
  private _showApp(url: string, notice?: JSX.Element): void {
    this._show(
      <>
        {notice && <div className="jp-tpu-Panel">{notice}</div>}
        <div className="jp-IFrame">
          <iframe
            src={url}
            title={this.target.name}
            sandbox={SANDBOX.join(' ')}
            referrerPolicy="no-referrer"
          />
        </div>
      </>
    );
  }

  private _show(content: JSX.Element): void {
    this._content = content;
    this.update();
  }

  private _app: string | null = null;
  private _attempt = 0;
  /** Whether TensorBoard may show a folder that does not exist yet. */
  private _allowMissing = false;
  private _content = (<></>);
}

/** The tab. */
export function appTab(
  target: IAppTarget,
  model: TPUModel
): MainAreaWidget<AppView> {
  const opener = new AppOpener(model);
  const view = new AppView(target, model, opener);
  const where = target.host
    ? trans.__('%1 host %2', target.tpu, target.host)
    : target.tpu;
  const what = target.logdir || trans.__('port %1', target.port);
  const tab = createTab(view, {
    id: `jp-tpu-app ${targetKey(target)}`,
    label: target.name,
    caption: `${what} · ${where}`
  });
  tab.toolbar.addItem(
    'reload',
    new ToolbarButton({
      icon: refreshIcon,
      tooltip: trans.__('Reload'),
      onClick: () => void view.load(true)
    })
  );
  tab.toolbar.addItem(
    'window',
    new ToolbarButton({
      icon: launchIcon,
      tooltip: trans.__('Open in a new window'),
      onClick: () => void opener.openWindow(target)
    })
  );
  return tab;
}

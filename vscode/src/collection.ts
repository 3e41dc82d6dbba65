// "Cloud TPUs" in the kernel picker of Microsoft's Jupyter extension.

import type { Jupyter, JupyterServer } from '@vscode/jupyter-extension';
import * as vscode from 'vscode';

import { trans } from '../../labextension/src/language/translation';
import { explanation, portTaken } from './explanation';
import { isOwn } from './portOwner';
import { Session } from './session';

const JUPYTER_EXTENSION = 'ms-toolsai.jupyter';
/** Always the same, so that a notebook finds its server again, whatever port that has. */
const ID = 'jupyter-tpu';
const DOCUMENTATION =
  'https://github.com/jupyter-tpu/jupyter-tpu/blob/main/docs/notebooks/vscode.md';

/** Offers the server of *session* as soon as a notebook is open, which is when it is needed. */
export class Collection implements vscode.Disposable {
  constructor(private _session: Session) {
    const { notebookDocuments, onDidOpenNotebookDocument } = vscode.workspace;
    this._disposables.push(
      this._changed,
      onDidOpenNotebookDocument(document => this._offer(document)),
      vscode.extensions.onDidChange(() =>
        notebookDocuments.forEach(one => this._offer(one))
      )
    );
    _session.stateChanged.connect(this._onSession, this);
    notebookDocuments.forEach(one => this._offer(one));
  }

  dispose(): void {
    this._session.stateChanged.disconnect(this._onSession, this);
    this._disposables.forEach(one => one.dispose());
  }

  private async _offer(document: vscode.NotebookDocument): Promise<void> {
    const extension =
      vscode.extensions.getExtension<Jupyter>(JUPYTER_EXTENSION);
    if (
      document.notebookType !== 'jupyter-notebook' ||
      this._offered ||
      !extension
    ) {
      return;
    }
    this._offered = true;
    try {
      const api = await extension.activate();
      const collection = api.createJupyterServerCollection(
        ID,
        trans.__('Cloud TPUs'),
        {
          onDidChangeServers: this._changed.event,
          provideJupyterServers: () => this._servers(),
          resolveJupyterServer: server => this._resolve(server)
        }
      );
      collection.documentation = vscode.Uri.parse(DOCUMENTATION);
      this._disposables.push(collection);
    } catch (error) {
      this._offered = false;
      void vscode.window.showErrorMessage(
        trans.__(
          'The Jupyter extension does not take servers of other extensions: %1. Update it.',
          (error as Error).message
        )
      );
    }
  }

  /** One, whether it runs or not: choosing it starts it. */
  private _servers(): JupyterServer[] {
    if (!vscode.workspace.isTrusted) {
      return [];
    }
    const url = this._session.connection?.client.server.url;
    const label = url
      ? trans.__('Jupyter server at %1', new URL(url).host)
      : trans.__('Start a Jupyter server');
    return [{ id: ID, label }];
  }

  /** The Jupyter extension asks for a server that it remembers also where none is offered. */
  private async _resolve(server: JupyterServer): Promise<JupyterServer> {
    let connection = vscode.workspace.isTrusted
      ? await this._session.connect()
      : null;
    if (connection && !isOwn(connection.client.server)) {
      connection = await this._session.search();
    }
    if (!connection) {
      throw new Error(explanation(this._session));
    }
    const { token, url } = connection.client.server;
    if (!isOwn(connection.client.server)) {
      throw new Error(portTaken(url));
    }
    return {
      ...server,
      label: trans.__('Jupyter server at %1', new URL(url).host),
      connectionInformation: { baseUrl: vscode.Uri.parse(url), token }
    };
  }

  private _onSession(): void {
    const url = this._session.connection?.client.server.url ?? '';
    if (url === this._url) {
      return;
    }
    this._url = url;
    this._changed.fire();
    if (url && this._last && url !== this._last && this._offered) {
      void adviseReload();
    }
    this._last = url || this._last;
  }

  private _changed = new vscode.EventEmitter<void>();
  private _disposables: vscode.Disposable[] = [];
  /** The address of the last server; "" before there was one. */
  private _last = '';
  private _offered = false;
  private _url = '';
}

/**
 * The Jupyter extension asks for the address of a server once. If that refuses its token, it asks
 * again; if nothing answers there, it looks for its kernels there for minutes. It can't be told.
 */
async function adviseReload(): Promise<void> {
  const reload = trans.__('Reload Window');
  const answer = await vscode.window.showWarningMessage(
    trans.__(
      'The Jupyter server has another address now. Open notebooks find it after you reload the window.'
    ),
    reload
  );
  if (answer === reload) {
    await vscode.commands.executeCommand('workbench.action.reloadWindow');
  }
}

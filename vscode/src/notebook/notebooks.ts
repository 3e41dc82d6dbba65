// Kernels on TPUs in VS Code's own kernel picker, and what belongs to the notebooks that use them.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { Failure } from '../../../labextension/src/rest/failure';
import { failureLine } from '../../../labextension/src/rest/failureText';
import { IConnection, Session } from '../session';
import { EarlierText } from './earlierText';
import { GoneCells } from './goneCells';
import { provideLanguageFeatures } from './languageFeatures';
import { reportLost } from './lostKernel';
import { NotebookKernel, KernelState } from './notebookKernel';
import { kernelspecOf, savedWidgets, useKernelspec } from './notebookMetadata';
import { RunStore } from './runStore';
import { isComplete } from './savedFile';
import { IKernelspec, kernelspecs, runningKernel } from './sessions';
import { Ways } from './ways';
import { WidgetPages } from './widgetPages';

const TYPE = 'jupyter-notebook';
const EXTENSION = 'jupyter-tpu.jupyter-tpu';
/** The kernelspecs of last time: a notebook has its kernel before the server is found. */
const KNOWN = 'jupyterTpu.kernelspecs';

export class Notebooks implements vscode.Disposable {
  constructor(
    private _session: Session,
    private _state: vscode.Memento,
    private _log: (line: string) => void
  ) {
    this._store = new RunStore(_state);
    const { workspace } = vscode;
    this._disposables.push(
      this._store,
      this._gone,
      this._item,
      this._ways,
      this._pages,
      vscode.notebooks.registerNotebookCellStatusBarItemProvider(
        TYPE,
        this._earlier
      ),
      provideLanguageFeatures(document => this._kernelOf(document)),
      workspace.onDidOpenNotebookDocument(one => this._prefer(one)),
      workspace.onDidCloseNotebookDocument(one => this._close(one)),
      workspace.onDidSaveNotebookDocument(one => void this._saved(one)),
      workspace.onDidChangeNotebookDocument(({ contentChanges, notebook }) =>
        this._kernels.get(notebook)?.cellsChanged(contentChanges)
      ),
      workspace.onDidRenameFiles(({ files }) =>
        files.forEach(one => this._store.rename(one.oldUri, one.newUri))
      ),
      vscode.window.onDidChangeActiveNotebookEditor(() => this._showState()),
      vscode.window.onDidChangeVisibleNotebookEditors(() => this._joinAll())
    );
    this._item.name = trans.__('Kernel');
    if (vscode.workspace.isTrusted) {
      this._offer(_state.get<IKernelspec[]>(KNOWN) ?? []);
    }
    _session.stateChanged.connect(this._onSession, this);
    this._onSession();
  }

  dispose(): void {
    this._session.stateChanged.disconnect(this._onSession, this);
    this._kernels.forEach(kernel => kernel.disconnect());
    this._controllers.forEach(one => one.dispose());
    this._disposables.forEach(one => one.dispose());
  }

  /** Asks first. */
  async restart(andRun = false): Promise<void> {
    const notebook = this._active;
    const kernel = notebook && this._kernels.get(notebook);
    if (!kernel) {
      return;
    }
    const accept = trans.__('Restart');
    const answer = await vscode.window.showWarningMessage(
      trans.__('Restart the kernel?'),
      { modal: true, detail: trans.__('All variables will be lost.') },
      accept
    );
    if (answer === accept) {
      await kernel.restart();
      if (andRun) {
        await vscode.commands.executeCommand('notebook.execute', notebook.uri);
      }
    }
  }

  private get _active(): vscode.NotebookDocument | undefined {
    return vscode.window.activeNotebookEditor?.notebook;
  }

  private _kernelOf(cell: vscode.TextDocument): NotebookKernel | undefined {
    for (const [notebook, kernel] of this._kernels) {
      if (notebook.uri.path === cell.uri.path) {
        return kernel;
      }
    }
    return undefined;
  }

  // ---- controllers

  private _onSession(): void {
    const { connection } = this._session;
    if (connection !== this._connection) {
      this._connection = connection;
      this._kernels.forEach(kernel => kernel.serverChanged());
      this._listed = '';
    }
    if (connection) {
      // What the kernelspecs depend on.
      const listed = JSON.stringify(
        connection.resources.tpus.map(({ environments, name, state }) => [
          name,
          state,
          environments
        ])
      );
      if (listed !== this._listed) {
        this._listed = listed;
        void this._list(connection);
      }
    }
  }

  private async _list({ client }: IConnection): Promise<void> {
    const found = await kernelspecs(client).catch(() => null);
    if (found && this._connection?.client === client) {
      this._offer(found);
      this._isListed = true;
      this._joinAll();
      await this._state.update(KNOWN, found);
    }
  }

  /** Offers these kernelspecs, and no others. */
  private _offer(specs: IKernelspec[]): void {
    for (const { label, name } of specs) {
      let controller = this._controllers.get(name);
      if (!controller) {
        controller = this._create(name, label);
        this._controllers.set(name, controller);
      }
      controller.label = label;
    }
    const names = specs.map(one => one.name);
    for (const [name, controller] of this._controllers) {
      if (!names.includes(name)) {
        for (const notebook of this._kernels.keys()) {
          this._close(notebook, name); // VS Code does not say that it is not selected any more
        }
        controller.dispose();
        this._controllers.delete(name);
      }
    }
    vscode.workspace.notebookDocuments.forEach(one => this._prefer(one));
    if (specs.length > 0) {
      for (const editor of vscode.window.visibleNotebookEditors) {
        if (this._ways.waiting.delete(editor.notebook)) {
          void this._select(editor, specs.at(-1)!.name);
        }
      }
    }
    this._ways.offer(specs.length === 0);
  }

  private async _select(
    notebookEditor: vscode.NotebookEditor,
    id: string
  ): Promise<void> {
    await vscode.commands.executeCommand('notebook.selectKernel', {
      notebookEditor,
      id,
      extension: EXTENSION
    });
  }

  private _create(name: string, label: string): vscode.NotebookController {
    const controller = vscode.notebooks.createNotebookController(
      name,
      TYPE,
      label,
      (cells, notebook) => this._kernels.get(notebook)?.execute(cells)
    );
    controller.description = 'Cloud TPU';
    controller.supportedLanguages = ['python'];
    controller.supportsExecutionOrder = true;
    controller.interruptHandler = async notebook => {
      try {
        await this._kernels.get(notebook)?.interrupt();
      } catch (error) {
        void vscode.window.showErrorMessage(failureLine(error));
      }
    };
    controller.onDidChangeSelectedNotebooks(({ notebook, selected }) => {
      this._close(notebook, name);
      if (selected) {
        this._open(notebook, name, controller);
      }
    });
    return controller;
  }

  /** The kernel that a notebook names is offered first. */
  private _prefer(notebook: vscode.NotebookDocument): void {
    const controller = this._controllers.get(kernelspecOf(notebook) ?? '');
    if (notebook.notebookType === TYPE && controller) {
      controller.updateNotebookAffinity(
        notebook,
        vscode.NotebookControllerAffinity.Preferred
      );
    }
  }

  private _joinAll(): void {
    for (const editor of vscode.window.visibleNotebookEditors) {
      void this._join(editor);
      if (this._isListed) {
        void this._checkKernel(editor.notebook);
      }
    }
  }

  /** Selects the kernel that a notebook names, if it runs already, of another window or in JupyterLab. */
  private async _join(editor: vscode.NotebookEditor): Promise<void> {
    const { notebook } = editor;
    const client = this._connection?.client;
    const name = kernelspecOf(notebook) ?? '';
    if (!client || !this._controllers.has(name) || this._joined.has(notebook)) {
      return;
    }
    this._joined.add(notebook);
    const kernel = await runningKernel(client, notebook.uri, name).catch(
      () => null
    );
    if (kernel && !this._kernels.has(notebook)) {
      await this._select(editor, name);
    }
  }

  /** Says so if the kernel of a notebook is not there any more, as its kernelspec is not. */
  private async _checkKernel(notebook: vscode.NotebookDocument): Promise<void> {
    const client = this._connection?.client;
    const used = this._store.kernel(notebook.uri);
    if (!client || !used || this._controllers.has(used.kernelspec ?? '')) {
      return;
    }
    const isGone = await client.jupyter('GET', `kernels/${used.kernel}`).then(
      () => false,
      error => Failure.from(error).reason === 'MISSING'
    );
    if (isGone && this._store.kernel(notebook.uri)?.kernel === used.kernel) {
      await reportLost(client, this._store, notebook);
    }
  }

  // ---- notebooks

  private _open(
    notebook: vscode.NotebookDocument,
    name: string,
    controller: vscode.NotebookController
  ): void {
    this._close(notebook);
    const kernel = new NotebookKernel(notebook, name, controller, {
      session: this._session,
      store: this._store,
      gone: this._gone,
      pages: this._pages,
      log: this._log,
      setEarlier: (cell, isEarlier) => this._earlier.set(cell, isEarlier)
    });
    this._kernels.set(notebook, kernel);
    kernel.stateChanged(() => this._showState());
    this._showState();
    void useKernelspec(notebook, name, controller.label);
  }

  /** Output that is in no file yet stays with the server. */
  private async _saved(notebook: vscode.NotebookDocument): Promise<void> {
    const { fsPath, scheme } = notebook.uri;
    const ended = this._store.ended(notebook.uri); // what ends from now on is not in the file
    if (
      notebook.notebookType === TYPE &&
      scheme === 'file' &&
      !(await isComplete(fsPath).catch(() => true)) // it is not there any more
    ) {
      void vscode.window.showErrorMessage(
        trans.__(
          '%1 was not saved completely. Free disk space, and save it again.',
          fsPath
        )
      );
      return;
    }
    this._store.saved(notebook.uri, ended);
  }

  /** A page that shows a notebook's widgets is there. */
  private _show(editor: vscode.NotebookEditor): void {
    const { notebook } = editor;
    const kernel = this._kernels.get(notebook);
    if (kernel) {
      kernel.widgets.show(editor);
    } else {
      const saved = savedWidgets(notebook);
      this._pages.post([editor], { kind: 'complete', saved });
    }
  }

  /** *name*: only if it uses this kernelspec. */
  private _close(notebook: vscode.NotebookDocument, name?: string): void {
    const kernel = this._kernels.get(notebook);
    if (kernel && (!name || kernel.kernelspec === name)) {
      this._kernels.delete(notebook);
      kernel.dispose();
      this._showState();
    }
  }

  /** What the kernel of the notebook in front does. */
  private _showState(): void {
    const kernel = this._active && this._kernels.get(this._active);
    const text: { [state in KernelState]: string } = {
      none: '',
      starting: `$(loading~spin) ${trans.__('Kernel starting')}`,
      idle: trans.__('Kernel idle'),
      busy: trans.__('Kernel busy'),
      reconnecting: `$(loading~spin) ${trans.__('Kernel reconnecting')}`
    };
    this._item.text = kernel ? text[kernel.state] : '';
    this._item.command =
      this._connection === null ? 'jupyterTpu.startServer' : undefined;
    if (this._item.text) {
      this._item.show();
    } else {
      this._item.hide();
    }
  }

  private _connection: IConnection | null = null;
  private _controllers = new Map<string, vscode.NotebookController>();
  private _disposables: vscode.Disposable[] = [];
  private _earlier = new EarlierText();
  private _gone = new GoneCells();
  /** The server has said which kernelspecs there are. */
  private _isListed = false;
  private _item = vscode.window.createStatusBarItem(
    'jupyterTpu.kernel',
    vscode.StatusBarAlignment.Right
  );
  /** Those whose kernel was looked for. */
  private _joined = new WeakSet<vscode.NotebookDocument>();
  private _kernels = new Map<vscode.NotebookDocument, NotebookKernel>();
  private _listed = '';
  private _pages = new WidgetPages(
    editor => this._show(editor),
    (editor, message) =>
      this._kernels.get(editor.notebook)?.widgets.send(editor, message)
  );
  private _store: RunStore;
  private _ways = new Ways(TYPE);
}

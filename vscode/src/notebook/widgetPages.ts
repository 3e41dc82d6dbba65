// The pages of this window that show widgets: one for each editor of a notebook that has some.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import {
  FromPage,
  ICommMessage,
  ITexts,
  RENDERER,
  ToPage
} from '../../widgets/src/protocol';

export class WidgetPages implements vscode.Disposable {
  /** *onReady*: a page is there, and knows no widget. *onSend*: it has a message for the kernel. */
  constructor(
    onReady: (editor: vscode.NotebookEditor) => void,
    onSend: (editor: vscode.NotebookEditor, message: ICommMessage) => void
  ) {
    this._listener = this._messaging.onDidReceiveMessage(
      ({
        editor,
        message
      }: {
        editor: vscode.NotebookEditor;
        message: FromPage;
      }) => {
        if (message.kind === 'ready') {
          this._editors.add(editor);
          this.post([editor], { kind: 'texts', texts: texts() });
          onReady(editor);
        } else {
          onSend(editor, message.message);
        }
      }
    );
  }

  dispose(): void {
    this._listener.dispose();
  }

  /** The pages of a notebook. */
  of(notebook: vscode.NotebookDocument): vscode.NotebookEditor[] {
    return [...this._editors].filter(one => one.notebook === notebook);
  }

  post(editors: vscode.NotebookEditor[], message: ToPage): void {
    for (const editor of editors) {
      const gone = () => this._editors.delete(editor);
      try {
        this._messaging.postMessage(message, editor).then(undefined, gone);
      } catch {
        gone();
      }
    }
  }

  private _editors = new Set<vscode.NotebookEditor>();
  private _listener: vscode.Disposable;
  private _messaging = vscode.notebooks.createRendererMessaging(RENDERER);
}

function texts(): ITexts {
  return {
    loading: trans.__('Loading the widget…'),
    missing: trans.__(
      'The kernel does not have this widget. Run the cell again.'
    ),
    unsupported: trans.__(
      'Jupyter TPU shows widgets of ipywidgets and anywidget in VS Code. This one needs %1: open the notebook in JupyterLab.'
    )
  };
}

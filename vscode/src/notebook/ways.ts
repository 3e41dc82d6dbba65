// What the kernel picker offers while there is no kernel on a TPU: ways to get one.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';

export class Ways implements vscode.Disposable {
  /** The notebooks for which one was chosen. */
  readonly waiting = new Set<vscode.NotebookDocument>();

  constructor(private _type: string) {}

  dispose(): void {
    this.offer(false);
  }

  offer(isOffered: boolean): void {
    if (!isOffered) {
      this._controllers.forEach(one => one.dispose());
      this._controllers = [];
    } else if (this._controllers.length === 0) {
      this._controllers = [
        this._create('connect', trans.__('Connect a TPU…')),
        this._create('create', trans.__('New TPU…'))
      ];
    }
  }

  /** The command of that name is run when it is selected, and when cells are to be run. */
  private _create(command: string, label: string): vscode.NotebookController {
    const run = async (notebook: vscode.NotebookDocument) => {
      this.waiting.add(notebook);
      await vscode.commands.executeCommand(`jupyterTpu.${command}`);
    };
    const controller = vscode.notebooks.createNotebookController(
      command,
      this._type,
      label,
      (_, notebook) => run(notebook)
    );
    controller.description = 'Cloud TPU';
    controller.onDidChangeSelectedNotebooks(({ notebook, selected }) => {
      if (selected) {
        void run(notebook);
      } else {
        this.waiting.delete(notebook);
      }
    });
    return controller;
  }

  private _controllers: vscode.NotebookController[] = [];
}

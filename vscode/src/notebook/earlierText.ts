// Marks cells whose output is that of an earlier text. The mark is not part of the notebook's file.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';

export class EarlierText implements vscode.NotebookCellStatusBarItemProvider {
  get onDidChangeCellStatusBarItems(): vscode.Event<void> {
    return this._changed.event;
  }

  set(cell: vscode.NotebookCell, isEarlier: boolean): void {
    if (this._cells.has(cell) !== isEarlier) {
      this._cells[isEarlier ? 'add' : 'delete'](cell);
      this._changed.fire();
    }
  }

  provideCellStatusBarItems(
    cell: vscode.NotebookCell
  ): vscode.NotebookCellStatusBarItem[] {
    if (!this._cells.has(cell)) {
      return [];
    }
    const item = new vscode.NotebookCellStatusBarItem(
      `$(history) ${trans.__('Output of an earlier text')}`,
      vscode.NotebookCellStatusBarAlignment.Left
    );
    item.tooltip = trans.__(
      'This cell was changed after it was run. Its output is that of the text before.'
    );
    return [item];
  }

  private _cells = new WeakSet<vscode.NotebookCell>();
  private _changed = new vscode.EventEmitter<void>();
}

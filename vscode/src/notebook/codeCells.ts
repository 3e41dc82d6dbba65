// Which cell of a notebook a request is of.

import { createHash } from 'node:crypto';
import * as vscode from 'vscode';

import { IStoredRun } from './runStore';

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

/** The id that a notebook's file gives a cell; undefined in old ones. */
export function cellId(cell: vscode.NotebookCell): string | undefined {
  const { id } = cell.metadata as { id?: unknown };
  return typeof id === 'string' && id ? id : undefined;
}

/** The code cells of a notebook as they are now, to find those of requests. */
export class CodeCells {
  constructor(notebook: vscode.NotebookDocument) {
    for (const cell of notebook.getCells()) {
      const id = cellId(cell);
      if (cell.kind !== vscode.NotebookCellKind.Code) {
        continue;
      }
      if (!id) {
        this._unnamed.push(cell);
      } else if (!this._named.has(id)) {
        this._named.set(id, cell);
      }
    }
  }

  /** The cell of a request: the one with its id, else the one that has its text, at best in its place. */
  find(id: string, stored?: IStoredRun): vscode.NotebookCell | undefined {
    const named = this._named.get(id);
    if (named || !stored) {
      return named;
    }
    this._hashes ??= this._unnamed.map(cell => hashOf(cell.document.getText()));
    const same = this._unnamed.filter(
      (_, index) => this._hashes![index] === stored.hash
    );
    return same.find(cell => cell.index === stored.index) ?? same[0];
  }

  private _hashes?: string[];
  private _named = new Map<string, vscode.NotebookCell>();
  /** Cells of old notebooks have no ids. */
  private _unnamed: vscode.NotebookCell[] = [];
}

// What a window keeps of the cells that it runs, so that the next one takes them up: VS Code itself
// forgets with a reload that a cell runs.

import { createHash } from 'node:crypto';
import * as vscode from 'vscode';

/** A request and the cell that it is of. */
export interface IStoredRun {
  /** As the request names the cell. */
  cell: string;
  /** Where the cell was, and a hash of its text: cells of old notebooks have no id. */
  index: number;
  hash: string;
  /** When it began, in milliseconds since 1970. */
  started?: number;
  /** Its output is in the document. */
  ended?: boolean;
  /** And the document was saved with it: what is changed later is the user's. */
  saved?: boolean;
}

interface IStoredNotebook {
  kernel: string;
  runs: { [request: string]: IStoredRun };
}

const KEY = 'jupyterTpu.runs';
/** Requests that are kept for each notebook, the latest ones. */
const MOST = 500;

export class RunStore {
  constructor(private _memento: vscode.Memento) {
    this._notebooks = { ..._memento.get<typeof this._notebooks>(KEY) };
  }

  /** The kernel that a notebook used last; undefined: none. */
  kernel(notebook: vscode.Uri): string | undefined {
    return this._notebooks[notebook.toString()]?.kernel;
  }

  /** The requests of a notebook, the oldest first. */
  runs(notebook: vscode.Uri): { [request: string]: IStoredRun } {
    return this._notebooks[notebook.toString()]?.runs ?? {};
  }

  /** Forgets what another kernel ran. */
  setKernel(notebook: vscode.Uri, kernel: string | null): void {
    if (!kernel) {
      delete this._notebooks[notebook.toString()];
    } else if (this.kernel(notebook) !== kernel) {
      this._notebooks[notebook.toString()] = { kernel, runs: {} };
    }
    this._write();
  }

  set(notebook: vscode.Uri, request: string, run: IStoredRun): void {
    const runs = this.runs(notebook);
    runs[request] = run;
    Object.keys(runs)
      .slice(0, -MOST)
      .forEach(old => delete runs[old]);
    this._write();
  }

  change(
    notebook: vscode.Uri,
    request: string,
    fields: Partial<IStoredRun>
  ): void {
    const run = this.runs(notebook)[request];
    if (run) {
      Object.assign(run, fields);
      this._write();
    }
  }

  /** The document was saved with the output of all that has ended. */
  saved(notebook: vscode.Uri): void {
    const runs = this.runs(notebook);
    for (const run of Object.values(runs)) {
      run.saved ||= run.ended;
    }
    this._write();
  }

  /** Notebooks that were moved keep what they have. */
  rename(from: vscode.Uri, to: vscode.Uri): void {
    const moved = this._notebooks[from.toString()];
    if (moved) {
      delete this._notebooks[from.toString()];
      this._notebooks[to.toString()] = moved;
      this._write();
    }
  }

  private _write(): void {
    void this._memento.update(KEY, this._notebooks);
  }

  private _notebooks: { [notebook: string]: IStoredNotebook };
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

/** The id that a notebook's file gives a cell; undefined in old ones. */
export function cellId(cell: vscode.NotebookCell): string | undefined {
  const { id } = cell.metadata as { id?: unknown };
  return typeof id === 'string' && id ? id : undefined;
}

/** The cell of a request: the one with its id, else the one that has its text, at best in its place. */
export function cellOf(
  notebook: vscode.NotebookDocument,
  id: string,
  stored: IStoredRun | undefined
): vscode.NotebookCell | undefined {
  const cells = notebook
    .getCells()
    .filter(cell => cell.kind === vscode.NotebookCellKind.Code);
  const named = cells.find(cell => cellId(cell) === id);
  if (named || !stored) {
    return named;
  }
  const same = cells.filter(
    cell => !cellId(cell) && hashOf(cell.document.getText()) === stored.hash
  );
  return same.find(cell => cell.index === stored.index) ?? same[0];
}

// What a window keeps of the cells that it runs, so that the next one takes them up: VS Code itself
// forgets with a reload that a cell runs.

import type { Disposable, Uri } from 'vscode';

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

export interface IStoredRuns {
  [request: string]: IStoredRun;
}

/** A kernel, the name of its kernelspec, and where its server is (`placeOf`). */
interface IStoredKernel {
  kernel: string;
  kernelspec?: string;
  server?: string;
}

interface IStoredNotebook extends IStoredKernel {
  runs: IStoredRuns;
}

/** As much of VS Code's `Memento` as is needed. */
interface IMemory {
  get<T>(key: string): T | undefined;
  update(key: string, value: unknown): Thenable<void>;
}

const KEY = 'jupyterTpu.runs';
/** The most that is kept: of each notebook the latest requests that have ended, and the latest notebooks. */
const MOST = { ended: 500, notebooks: 50 };
/** Milliseconds between two writes of what a lost write would not harm: VS Code writes all of it each time. */
const PAUSE = 500;

export class RunStore implements Disposable {
  constructor(private _memory: IMemory) {
    this._notebooks = new Map(
      Object.entries(
        _memory.get<{ [notebook: string]: IStoredNotebook }>(KEY) ?? {}
      )
    );
  }

  dispose(): void {
    if (this._timer) {
      this._write();
    }
  }

  /** The kernel that a notebook used last; undefined: none. */
  kernel(notebook: Uri): Readonly<IStoredKernel> | undefined {
    return this._notebooks.get(notebook.toString());
  }

  /** The requests of a notebook, the oldest first. */
  runs(notebook: Uri): IStoredRuns {
    return this._notebooks.get(notebook.toString())?.runs ?? {};
  }

  /** Forgets what another kernel ran. */
  setKernel(notebook: Uri, used: Required<IStoredKernel> | null): void {
    const id = notebook.toString();
    const stored = this._notebooks.get(id);
    this._notebooks.delete(id);
    if (used) {
      const runs = stored?.kernel === used.kernel ? stored.runs : {};
      this._notebooks.set(id, { ...used, runs }); // the last one, now
    }
    [...this._notebooks.keys()]
      .slice(0, -MOST.notebooks)
      .forEach(old => this._notebooks.delete(old));
    this._write();
  }

  /** Written at once: they are about to be sent. */
  add(notebook: Uri, added: IStoredRuns): void {
    const runs = Object.assign(this.runs(notebook), added);
    Object.keys(runs)
      .filter(request => runs[request].ended)
      .slice(0, -MOST.ended)
      .forEach(old => delete runs[old]);
    this._write();
  }

  change(notebook: Uri, request: string, fields: Partial<IStoredRun>): void {
    const run = this.runs(notebook)[request];
    if (run) {
      Object.assign(run, fields);
      this._writeSoon();
    }
  }

  /** Nothing of a notebook runs any more, but *except*. */
  endAll(notebook: Uri, except: string[]): void {
    for (const [id, run] of Object.entries(this.runs(notebook))) {
      run.ended ||= !except.includes(id);
    }
    this._writeSoon();
  }

  /** The ids of what has ended. */
  ended(notebook: Uri): string[] {
    const runs = this.runs(notebook);
    return Object.keys(runs).filter(id => runs[id].ended);
  }

  /** The document was saved with the output of all that had *ended*. */
  saved(notebook: Uri, ended: string[]): void {
    const runs = this.runs(notebook);
    for (const id of ended.filter(id => id in runs)) {
      runs[id].saved = true;
    }
    this._write();
  }

  /** Notebooks that were moved keep what they have. */
  rename(from: Uri, to: Uri): void {
    const moved = this._notebooks.get(from.toString());
    if (moved) {
      this._notebooks.delete(from.toString());
      this._notebooks.set(to.toString(), moved);
      this._write();
    }
  }

  private _writeSoon(): void {
    this._timer ??= setTimeout(() => this._write(), PAUSE);
  }

  private _write(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    void this._memory.update(KEY, Object.fromEntries(this._notebooks));
  }

  /** The one that got its kernel last is the last one. */
  private _notebooks: Map<string, IStoredNotebook>;
  private _timer?: ReturnType<typeof setTimeout>;
}

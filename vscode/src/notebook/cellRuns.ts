// The requests of one notebook's cells: those that this window sends, those that the server offers because
// they ran meanwhile, and those whose cells are gone.

import * as vscode from 'vscode';

import { CellRun } from './cellRun';
import { cellId, CodeCells, hashOf } from './codeCells';
import { GoneCells, GoneRun } from './goneCells';
import { IOfferedRequest, JournalSocket } from './journalSocket';
import { IStoredRuns, RunStore } from './runStore';
import { createMessage, IMessage } from './wire';

export interface ICellRunsOptions {
  notebook: vscode.NotebookDocument;
  controller: vscode.NotebookController;
  /** The client's session. */
  client: string;
  store: RunStore;
  gone: GoneCells;
  /** A cell shows output of an earlier text, or not any more. */
  setEarlier: (cell: vscode.NotebookCell, isEarlier: boolean) => void;
  socket: () => JournalSocket | undefined;
  /** Cells run, or do not any more. */
  onChange: () => void;
}

export class CellRuns {
  constructor(private _options: ICellRunsOptions) {}

  /** Cells run, or wait for others: perhaps those of another window. */
  get areActive(): boolean {
    return this._active.size > 0;
  }

  /** What is to be sent for these cells. They are shown as waiting. */
  create(cells: vscode.NotebookCell[]): CellRun[] {
    return cells.flatMap(cell => this._create(cell) ?? []);
  }

  /** Sends what was created. */
  send(runs: CellRun[]): void {
    const stored: IStoredRuns = {};
    for (const { cell, id, request } of runs) {
      stored[id] = {
        cell: request!.metadata.cellId as string,
        index: cell.index,
        hash: hashOf(request!.content.code)
      };
    }
    this._options.store.add(this._uri, stored);
    runs.forEach(run => this._options.socket()!.execute(run.request!));
  }

  /** What was created can't be sent: the first one says why. */
  discard(runs: CellRun[], why: Error): void {
    for (const run of runs) {
      run.fail(run === runs[0] ? why : undefined);
      this._runs.delete(run.id);
    }
    this._options.onChange();
  }

  /** Takes up what ran meanwhile. Returns the number of cells that show it. */
  takeUpOffered(requests: IOfferedRequest[]): number {
    const stored = this._options.store.runs(this._uri);
    const cells = new CodeCells(this._options.notebook);
    const offered = new Map<vscode.NotebookCell, IOfferedRequest>();
    for (const request of requests) {
      const { cell: name, code, id } = request;
      if (this._runs.has(id) || stored[id]?.saved) {
        continue;
      }
      const cell = cells.find(name, stored[id]);
      if (cell) {
        offered.set(cell, request); // the last one counts
      } else if (name) {
        this._lost.set(id, name);
        this._show(id, code);
      }
    }
    const taken: IStoredRuns = {};
    for (const [cell, { code, count, id }] of offered) {
      const isShown =
        count !== null &&
        cell.executionSummary?.executionOrder === count &&
        (!stored[id] || stored[id].ended);
      if (!isShown) {
        Object.assign(taken, this._takeUp(id, cell, code));
      }
    }
    this._follow(taken);
    return offered.size;
  }

  /** Another client runs a cell of this notebook. False: it does not, or it is known. */
  takeUpOthers({ content, metadata, parent_header }: IMessage): boolean {
    const id = parent_header.msg_id ?? '';
    if (this._runs.has(id)) {
      return false;
    }
    const { cell: name } = (metadata.jupyter_tpu ?? {}) as { cell?: string };
    const cell = name && new CodeCells(this._options.notebook).find(name);
    if (cell) {
      this._follow(this._takeUp(id, cell, content.code));
    }
    return true;
  }

  /** Cells have come or gone. */
  cellsChanged(changes: readonly vscode.NotebookDocumentContentChange[]): void {
    const added = new Set(changes.flatMap(one => one.addedCells));
    const removed = new Set(changes.flatMap(one => one.removedCells));
    for (const run of this._active) {
      if (removed.has(run.cell) && !added.has(run.cell)) {
        this._lose(run); // it was not only moved
      }
    }
    for (const cell of this._lost.size > 0 ? added : []) {
      const id = cellId(cell);
      const request =
        id && [...this._lost].find(([, lost]) => lost === id)?.[0];
      if (request) {
        this._lost.delete(request);
        this._follow(this._takeUp(request, cell));
      }
    }
  }

  /** Takes a message of the kernel that answers a cell's request. */
  receive(message: IMessage): void {
    const id = message.parent_header.msg_id ?? '';
    const run = this._runs.get(id);
    run?.receive(message);
    if (run instanceof GoneRun && message.channel === 'shell') {
      this._end(id, true);
    }
  }

  /** Changes what has a display id, in all cells. */
  update({ data, metadata, transient }: IMessage['content']): void {
    for (const run of this._runs.values()) {
      if (run instanceof CellRun) {
        run.update(transient?.display_id, data, metadata);
      }
    }
  }

  /** The server does not know a request: see `IJournalListener`. */
  handleUnknown(id: string, hadIt: boolean): void {
    const run = this._runs.get(id);
    if (run instanceof CellRun && !run.isOver) {
      if (run.request && !hadIt) {
        this._options.socket()!.execute(run.request);
      } else {
        run.fail();
      }
    }
  }

  /**
   * The kernel has restarted, or is gone: nothing that was sent is answered, but *first* and what was
   * sent after it, to the new kernel.
   */
  endAll(first = ''): void {
    const active = [...this._active];
    const place = active.findIndex(run => run.id === first);
    const kept = place < 0 ? [] : active.slice(place);
    active.filter(run => !kept.includes(run)).forEach(run => run.fail());
    this._runs.clear();
    this._latest.clear();
    this._lost.clear();
    for (const run of kept) {
      this._runs.set(run.id, run);
      this._latest.set(run.cell, run);
    }
  }

  /** Nothing is shown any more, late output neither. The kernel goes on. */
  abandonAll(): void {
    for (const run of [...this._active, ...this._runs.values()]) {
      if (run instanceof CellRun) {
        run.abandon();
      }
    }
    this._active.clear();
  }

  private get _uri(): vscode.Uri {
    return this._options.notebook.uri;
  }

  /** Null: there is nothing to run. */
  private _create(cell: vscode.NotebookCell): CellRun | null {
    const { client, controller, setEarlier } = this._options;
    const code = cell.document.getText();
    setEarlier(cell, false);
    if (!code.trim()) {
      const execution = controller.createNotebookCellExecution(cell);
      execution.start();
      void execution.clearOutput();
      execution.end(undefined);
      return null;
    }
    const request = createMessage(
      'execute_request',
      client,
      {
        code,
        silent: false,
        store_history: true,
        user_expressions: {},
        allow_stdin: true,
        stop_on_error: true
      },
      { metadata: {} }
    );
    const id = request.header.msg_id;
    request.metadata.cellId = cellId(cell) ?? id;
    return this._add(id, cell, { request });
  }

  /** Throws if the cell can't be executed. */
  private _add(
    id: string,
    cell: vscode.NotebookCell,
    more: { request?: IMessage; takenUp?: { started?: number } }
  ): CellRun {
    const { controller, onChange, store } = this._options;
    const run = new CellRun({
      ...more,
      id,
      cell,
      createExecution: () => controller.createNotebookCellExecution(cell),
      onStart: started => store.change(this._uri, id, { started }),
      onEnd: () => {
        this._active.delete(run);
        this._end(id);
      }
    });
    // Output of threads of an earlier run does not belong to this one.
    const earlier = this._latest.get(cell);
    if (earlier) {
      this._runs.delete(earlier.id);
    }
    this._latest.set(cell, run);
    this._runs.set(id, run);
    this._active.add(run);
    onChange();
    return run;
  }

  /** Gets what these requests print, from their beginning. */
  private _follow(taken: IStoredRuns): void {
    const requests = Object.keys(taken);
    if (requests.length > 0) {
      this._options.store.add(this._uri, taken); // VS Code copies all that is stored
      this._options.socket()!.follow(...requests);
    }
  }

  /** Shows a request in a cell; `_follow` gets what is returned, of all together. */
  private _takeUp(
    id: string,
    cell: vscode.NotebookCell,
    code?: string
  ): IStoredRuns {
    const { setEarlier, store } = this._options;
    const stored = store.runs(this._uri)[id];
    const text = cell.document.getText();
    const hash = stored?.hash ?? (code ? hashOf(code) : '');
    try {
      this._add(id, cell, { takenUp: { started: stored?.started } });
    } catch {
      return {}; // it runs already
    }
    setEarlier(cell, !!hash && hash !== hashOf(text));
    return {
      [id]: {
        cell: cellId(cell) ?? id,
        index: cell.index,
        hash: hash || hashOf(text),
        started: stored?.started
      }
    };
  }

  /** The cell of a request was deleted. It is taken up again if the cell comes back. */
  private _lose(run: CellRun): void {
    const stored = this._options.store.runs(this._uri)[run.id];
    run.abandon();
    this._active.delete(run);
    this._lost.set(run.id, stored?.cell ?? '');
    this._show(run.id, run.cell.document.getText());
    this._options.onChange();
  }

  /** Shows a request that has no cell. */
  private _show(id: string, code: string): void {
    const { gone, socket, store } = this._options;
    this._runs.set(id, gone.add(this._uri, code));
    if (!store.runs(this._uri)[id]) {
      const hash = hashOf(code);
      store.add(this._uri, { [id]: { cell: '', index: -1, hash } });
    }
    socket()!.follow(id);
  }

  /** What a request had to show is shown. */
  private _end(request: string, isGone = false): void {
    const { socket, store } = this._options;
    socket()?.forget(request);
    // The output of a cell that is gone is shown once.
    const fields = { ended: true, ...(isGone ? { saved: true } : {}) };
    store.change(this._uri, request, fields);
  }

  private _active = new Set<CellRun>();
  /** The last request of each cell. */
  private _latest = new Map<vscode.NotebookCell, CellRun>();
  /** Requests whose cells are not there, and the ids of these. */
  private _lost = new Map<string, string>();
  private _runs = new Map<string, CellRun | GoneRun>();
}

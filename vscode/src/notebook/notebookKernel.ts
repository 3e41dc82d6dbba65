// One notebook and its kernel: runs cells, and takes up those that run already.

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { Failure } from '../../../labextension/src/rest/failure';
import { failureLine } from '../../../labextension/src/rest/failureText';
import { explanation } from '../explanation';
import { Session } from '../session';
import { CellRun } from './cellRun';
import { GoneCells, GoneRun } from './goneCells';
import { InputBoxes } from './inputBoxes';
import { IOfferedRequest, JournalSocket } from './journalSocket';
import { KernelWidgets } from './kernelWidgets';
import { setMetadata } from './notebookMetadata';
import { cellId, cellOf, hashOf, RunStore } from './runStore';
import { runningKernel, startKernel } from './sessions';
import { WidgetPages } from './widgetPages';
import { createMessage, IHeader, IMessage } from './wire';

/** What all notebooks of a window share. */
export interface INotebookServices {
  session: Session;
  store: RunStore;
  gone: GoneCells;
  pages: WidgetPages;
  /** Takes what happens, a line each. */
  log: (line: string) => void;
  /** A cell shows output of an earlier text, or not any more. */
  setEarlier: (cell: vscode.NotebookCell, isEarlier: boolean) => void;
}

export type KernelState =
  'none' | 'starting' | 'idle' | 'busy' | 'reconnecting';

/** Milliseconds for which a completion, or a documentation, is waited for. */
const LIMIT = 3000;

export class NotebookKernel implements vscode.Disposable {
  constructor(
    readonly notebook: vscode.NotebookDocument,
    /** The name of the kernelspec. */
    readonly kernelspec: string,
    private _controller: vscode.NotebookController,
    private _services: INotebookServices
  ) {
    this._inputs = new InputBoxes(this._name, this._client, message =>
      this._socket?.send(message)
    );
    this.widgets = new KernelWidgets({
      notebook,
      pages: _services.pages,
      client: this._client,
      send: message => this._socket?.deliver(message),
      request: message => this._request(message)
    });
    const kernel = _services.store.kernel(notebook.uri);
    if (kernel) {
      this._open(kernel);
    } else {
      void this._find();
    }
  }

  /** The notebook has another kernel, or is closed. The kernel goes on. */
  dispose(): void {
    this.disconnect();
    this.widgets.reset();
    this._runs.forEach(run => run instanceof CellRun && run.abandon());
  }

  /** The window is closed: what its cells show is not changed any more. */
  disconnect(): void {
    this._isDisposed = true;
    this._socket?.dispose();
    this._socket = undefined;
    this._inputs.dispose();
    this._changed.dispose();
  }

  private get _name(): string {
    return this.notebook.uri.path.split('/').at(-1)!;
  }

  get stateChanged(): vscode.Event<void> {
    return this._changed.event;
  }

  get state(): KernelState {
    if (this._starting) {
      return 'starting';
    }
    if (!this._socket) {
      return 'none';
    }
    if (!this._socket.isConnected) {
      return 'reconnecting';
    }
    return this._isBusy || this._isRunning ? 'busy' : 'idle';
  }

  /** Cells run, or wait for others: perhaps those of another window. */
  private get _isRunning(): boolean {
    return [...this._runs.values()].some(
      run => run instanceof CellRun && !run.isOver
    );
  }

  /** The server was found, perhaps at another address, or is gone. */
  serverChanged(): void {
    if (this._socket) {
      this._socket.reconnect();
    } else {
      void this._find();
    }
  }

  /** Runs cells in order. They also run when this window is gone. */
  async execute(cells: vscode.NotebookCell[]): Promise<void> {
    const runs = cells.flatMap(cell => this._run(cell) ?? []);
    try {
      await this._started();
    } catch (error) {
      this._explain(error);
      for (const run of runs) {
        run.fail();
        this._forget(run);
      }
      return;
    }
    for (const run of runs) {
      const { id, cell } = run;
      const stored = {
        cell: run.request!.metadata.cellId as string,
        index: cell.index,
        hash: hashOf(run.request!.content.code)
      };
      this._services.store.set(this.notebook.uri, id, stored);
      this._socket!.execute(run.request!);
    }
  }

  async interrupt(): Promise<void> {
    await this._act('interrupt');
  }

  /** Ends what runs; variables are lost. */
  async restart(): Promise<void> {
    this._starting ??= (async () => {
      try {
        await this._act('restart');
        this._endAll();
        this._kernelSession = '';
        void this.widgets.load();
      } finally {
        this._starting = undefined;
        this._changed.fire();
      }
    })();
    this._changed.fire();
    await this._starting;
  }

  /** What the kernel replies to a request; undefined: it is busy, or takes too long. */
  async ask<T>(
    type: string,
    content: object,
    token: vscode.CancellationToken
  ): Promise<T | undefined> {
    if (this.state !== 'idle') {
      return undefined;
    }
    const message = createMessage(type, this._client, content);
    return new Promise(resolve => {
      const done = (reply?: T) => {
        clearTimeout(timer);
        this._asked.delete(message.header.msg_id);
        resolve(reply);
      };
      const timer = setTimeout(done, LIMIT);
      token.onCancellationRequested(() => done());
      this._asked.set(message.header.msg_id, done as (reply: unknown) => void);
      this._socket?.send(message);
    });
  }

  /** Cells have come or gone. */
  cellsChanged({
    addedCells,
    removedCells
  }: vscode.NotebookDocumentContentChange): void {
    for (const run of this._runs.values()) {
      if (
        run instanceof CellRun &&
        removedCells.includes(run.cell) &&
        !run.isOver
      ) {
        this._lose(run);
      }
    }
    for (const cell of addedCells) {
      const id = cellId(cell);
      const request =
        id && [...this._lost].find(([, lost]) => lost === id)?.[0];
      if (request) {
        this._lost.delete(request);
        this._takeUp(request, cell);
      }
    }
  }

  // ---- the kernel

  /** The kernel that other clients of this notebook use, if there is one. */
  private async _find(): Promise<void> {
    const client = this._services.session.connection?.client;
    const kernel =
      client &&
      (await runningKernel(client, this.notebook.uri, this.kernelspec).catch(
        () => null // the server says no more than that there is none to show
      ));
    if (kernel && !this._socket && !this._starting && !this._isDisposed) {
      this._open(kernel);
    }
  }

  /** Resolves when there is a kernel. Throws what stands in the way. */
  private async _started(): Promise<void> {
    if (this._starting) {
      await this._starting;
    }
    if (!this._socket) {
      this._starting = this._start().finally(() => {
        this._starting = undefined;
        this._changed.fire();
      });
      this._changed.fire();
      await this._starting;
    }
  }

  private async _start(): Promise<void> {
    const { session } = this._services;
    const connection = await session.connect();
    if (!connection) {
      throw new Error(explanation(session));
    }
    const { client } = connection;
    this._open(await startKernel(client, this.notebook.uri, this.kernelspec));
  }

  private _open(kernel: string): void {
    const { session, store } = this._services;
    store.setKernel(this.notebook.uri, kernel);
    this._kernel = kernel;
    this._kernelSession = '';
    this._isBusy = false;
    this._socket = new JournalSocket(
      {
        kernel,
        client: this._client,
        server: () => session.connection?.client.server ?? null,
        lookUp: () => this._lookUp(kernel),
        search: () => session.search()
      },
      {
        onMessage: message => this._receive(message),
        onOffer: requests => this._takeUpOffered(requests),
        onUnknown: (request, hadIt) => this._handleUnknown(request, hadIt),
        onAnswered: input => this._inputs.close(input),
        onConnection: () => {
          const state = this._socket?.isConnected ? 'connected' : 'lost';
          this._services.log(`${this._name}: ${state}, kernel ${kernel}`);
          if (this._socket?.isConnected) {
            this._inputs.sendAgain();
            void this.widgets.load();
            void this._noteInfo();
          }
          this._changed.fire();
        },
        onGone: () => this._close()
      }
    );
    this._changed.fire();
  }

  private async _lookUp(
    kernel: string
  ): Promise<'found' | 'missing' | 'unavailable' | 'lost'> {
    const client = this._services.session.connection?.client;
    try {
      await client?.jupyter('GET', `kernels/${kernel}`);
      return client ? 'found' : 'lost';
    } catch (error) {
      const { reason } = Failure.from(error);
      return reason === 'MISSING'
        ? 'missing'
        : reason === 'NETWORK' || reason === 'DENIED'
          ? 'lost'
          : 'unavailable';
    }
  }

  /** There is no such kernel any more. */
  private _close(): void {
    this._endAll();
    this._socket?.dispose();
    this._socket = undefined;
    this._services.store.setKernel(this.notebook.uri, null);
    this._changed.fire();
    void this._find();
  }

  private async _act(action: 'interrupt' | 'restart'): Promise<void> {
    const client = this._services.session.connection?.client;
    if (client && this._socket) {
      await client.jupyter('POST', `kernels/${this._kernel}/${action}`);
    }
  }

  private _explain(error: unknown): void {
    void vscode.window.showErrorMessage(
      trans.__('The kernel could not be started. %1', failureLine(error))
    );
  }

  /** What the kernel replies, however long that takes. */
  private _request<T>(message: IMessage): Promise<T> {
    return new Promise(resolve => {
      this._asked.set(
        message.header.msg_id,
        resolve as (reply: unknown) => void
      );
      this._socket?.deliver(message);
    });
  }

  /** The server replies at once, and says whether the kernel is busy. */
  private async _noteInfo(): Promise<void> {
    const { language_info } = await this._request<{ language_info: object }>(
      createMessage('kernel_info_request', this._client, {})
    );
    // JupyterLab, too, writes into a notebook what its kernel says. VS Code itself writes only a name.
    if (!this.notebook.metadata.metadata?.language_info?.version) {
      await setMetadata(this.notebook, { language_info });
    }
  }

  // ---- cells

  /** Null: there is nothing to run. */
  private _run(cell: vscode.NotebookCell): CellRun | null {
    const code = cell.document.getText();
    this._services.setEarlier(cell, false);
    if (!code.trim()) {
      const execution = this._controller.createNotebookCellExecution(cell);
      execution.start();
      void execution.clearOutput();
      execution.end(undefined);
      return null;
    }
    const request = createMessage(
      'execute_request',
      this._client,
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
    options: { request?: IMessage; takenUp?: { started?: number } }
  ): CellRun {
    const { store } = this._services;
    const run = new CellRun({
      ...options,
      id,
      cell,
      createExecution: () => this._controller.createNotebookCellExecution(cell),
      onStart: started => store.change(this.notebook.uri, id, { started })
    });
    // Output of threads of an earlier run does not belong to this one.
    for (const [other, one] of this._runs) {
      if (one instanceof CellRun && one.cell === cell) {
        this._runs.delete(other);
      }
    }
    this._runs.set(id, run);
    this._changed.fire();
    return run;
  }

  private _forget(run: CellRun): void {
    this._runs.delete(run.id);
    this._socket?.forget(run.id);
    this._changed.fire();
  }

  private _takeUpOffered(requests: IOfferedRequest[]): void {
    const runs = this._services.store.runs(this.notebook.uri);
    const cells = new Map<vscode.NotebookCell, IOfferedRequest>();
    const missed = requests.filter(
      ({ id }) => !this._runs.has(id) && !runs[id]?.saved
    );
    for (const request of missed) {
      const cell = cellOf(this.notebook, request.cell, runs[request.id]);
      if (cell) {
        cells.set(cell, request); // the last one counts
      } else if (request.cell) {
        this._lost.set(request.id, request.cell);
        this._show(request.id, request.code);
      }
    }
    this._services.log(
      `${this._name}: ${requests.length} requests are offered, of ${cells.size} cells`
    );
    for (const [cell, { code, count, id }] of cells) {
      const stored = runs[id];
      const isShown =
        count !== null &&
        cell.executionSummary?.executionOrder === count &&
        (!stored || stored.ended);
      if (!isShown) {
        this._takeUp(id, cell, code);
      }
    }
  }

  /** Shows a request in a cell, from its beginning. */
  private _takeUp(id: string, cell: vscode.NotebookCell, code?: string): void {
    const { setEarlier, store } = this._services;
    const stored = store.runs(this.notebook.uri)[id];
    const text = cell.document.getText();
    const hash = stored?.hash ?? (code ? hashOf(code) : '');
    try {
      this._add(id, cell, { takenUp: { started: stored?.started } });
    } catch {
      return; // it runs already
    }
    setEarlier(cell, !!hash && hash !== hashOf(text));
    store.set(this.notebook.uri, id, {
      cell: cellId(cell) ?? id,
      index: cell.index,
      hash: hash || hashOf(text),
      started: stored?.started
    });
    this._socket!.follow(id);
  }

  /** The cell of a request was deleted. It is taken up again if the cell comes back. */
  private _lose(run: CellRun): void {
    const stored = this._services.store.runs(this.notebook.uri)[run.id];
    run.abandon();
    this._lost.set(run.id, stored?.cell ?? '');
    this._show(run.id, run.cell.document.getText());
    this._changed.fire();
  }

  /** Shows a request that has no cell. */
  private _show(id: string, code: string): void {
    const { gone, store } = this._services;
    this._runs.set(id, gone.add(this.notebook.uri, code));
    if (!store.runs(this.notebook.uri)[id]) {
      const unknown = { cell: '', index: -1, hash: hashOf(code) };
      store.set(this.notebook.uri, id, unknown);
    }
    this._socket!.follow(id);
  }

  /** The kernel has restarted, or is gone: nothing that was sent is answered. */
  private _endAll(): void {
    this._isBusy = false;
    this._inputs.dispose();
    this._asked.clear();
    this.widgets.reset();
    for (const run of this._runs.values()) {
      if (run instanceof CellRun && !run.isOver) {
        run.fail();
        this._end(run.id);
      }
    }
    this._runs.clear();
  }

  /** What a request had to show is shown. */
  private _end(request: string, isGone = false): void {
    this._socket?.forget(request);
    // The output of a cell that is gone is shown once.
    const fields = { ended: true, ...(isGone ? { saved: true } : {}) };
    this._services.store.change(this.notebook.uri, request, fields);
  }

  // ---- messages

  private _receive(message: IMessage): void {
    const before = this.state;
    this._handle(message);
    if (this.state !== before) {
      this._changed.fire();
    }
  }

  private _handle(message: IMessage): void {
    const { channel, content, header, parent_header } = message;
    const parent = parent_header.msg_id ?? '';
    if (channel === 'iopub' && header.msg_type === 'status') {
      this._noteStatus(header, content.execution_state);
    }
    if (header.msg_type === 'execute_input' && !this._runs.has(parent)) {
      this._showOthers(message);
      return;
    }
    const asked = this._asked.get(parent);
    if (asked && channel === 'shell') {
      this._asked.delete(parent);
      asked(content);
      return;
    }
    if (this.widgets.receive(message)) {
      return;
    }
    if (header.msg_type === 'update_display_data') {
      const { data, metadata, transient } = content;
      for (const run of this._runs.values()) {
        if (run instanceof CellRun) {
          run.update(transient?.display_id, data, metadata);
        }
      }
      return;
    }
    const run = this._runs.get(parent);
    if (header.msg_type === 'input_request') {
      this._inputs.ask(message);
    } else if (run) {
      const wasOver = run instanceof CellRun && run.isOver;
      run.receive(message);
      const isGone = run instanceof GoneRun;
      if (isGone ? channel === 'shell' : run.isOver && !wasOver) {
        this._end(parent, isGone);
      }
      if (channel === 'shell') {
        this._inputs.closeOf(parent);
      }
    }
  }

  private _noteStatus({ session }: IHeader, state: string): void {
    if (state === 'dead') {
      this._endAll();
    }
    if (state === 'starting' || state === 'restarting') {
      if (this._kernelSession && this._kernelSession !== session) {
        this._endAll();
      }
    }
    if (state === 'starting' || state === 'busy' || state === 'idle') {
      this._kernelSession = session;
    }
    if (state === 'starting') {
      void this.widgets.load();
    }
    this._isBusy = state === 'busy';
  }

  /** Another client runs a cell of this notebook. */
  private _showOthers({ content, metadata, parent_header }: IMessage): void {
    const { cell: id } = (metadata.jupyter_tpu ?? {}) as { cell?: string };
    const cell = id && cellOf(this.notebook, id, undefined);
    if (cell) {
      this._takeUp(parent_header.msg_id!, cell, content.code);
    }
  }

  private _handleUnknown(id: string, hadIt: boolean): void {
    const run = this._runs.get(id);
    if (run instanceof CellRun && !run.isOver) {
      if (run.request && !hadIt) {
        this._socket!.execute(run.request);
      } else {
        run.fail();
        this._end(run.id);
      }
    }
  }

  readonly widgets: KernelWidgets;
  /** Its session, for Jupyter: the server offers a new one what it has missed. */
  private _client = randomUUID();
  private _asked = new Map<string, (reply: unknown) => void>();
  private _changed = new vscode.EventEmitter<void>();
  private _inputs: InputBoxes;
  private _isBusy = false;
  private _isDisposed = false;
  private _kernel = '';
  /** The session of the kernel's own messages: another one after a restart. */
  private _kernelSession = '';
  /** Requests whose cells are not there, and the ids of these. */
  private _lost = new Map<string, string>();
  /** Of each cell the last one. */
  private _runs = new Map<string, CellRun | GoneRun>();
  private _socket?: JournalSocket;
  private _starting?: Promise<void>;
}

// One notebook and its kernel: runs cells, and takes up those that run already.

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { Failure } from '../../../labextension/src/rest/failure';
import { failureLine } from '../../../labextension/src/rest/failureText';
import { placeOf } from '../client';
import { explanation } from '../explanation';
import { Session } from '../session';
import { CellRuns } from './cellRuns';
import { GoneCells } from './goneCells';
import { InputBoxes } from './inputBoxes';
import { JournalSocket } from './journalSocket';
import { KernelWidgets } from './kernelWidgets';
import { reportLost } from './lostKernel';
import { setMetadata } from './notebookMetadata';
import { RunStore } from './runStore';
import { runningKernel, startKernel } from './sessions';
import { WidgetPages } from './widgetPages';
import { createMessage, IMessage } from './wire';

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
    controller: vscode.NotebookController,
    private _services: INotebookServices
  ) {
    const { gone, setEarlier, store } = _services;
    this._cells = new CellRuns({
      notebook,
      controller,
      client: this._client,
      store,
      gone,
      setEarlier,
      socket: () => this._socket,
      onChange: () => this._changed.fire()
    });
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
    const used = store.kernel(notebook.uri);
    if (used?.kernelspec === kernelspec) {
      this._open(used.kernel);
    } else {
      void this._find();
    }
  }

  /** The notebook has another kernel, or is closed. The kernel goes on. */
  dispose(): void {
    this.disconnect();
    this.widgets.reset();
    this._cells.abandonAll();
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
    return this._isBusy || this._cells.areActive ? 'busy' : 'idle';
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
    const runs = this._cells.create(cells);
    try {
      await this._started();
    } catch (error) {
      const why = trans.__(
        'The kernel could not be started. %1',
        failureLine(error)
      );
      this._services.log(`${this._name}: ${why}`);
      this._cells.discard(runs, { name: '', message: why });
      return;
    }
    if (!this._isDisposed) {
      this._cells.send(runs);
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
  cellsChanged(changes: readonly vscode.NotebookDocumentContentChange[]): void {
    this._cells.cellsChanged(changes);
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
    const kernel = await startKernel(
      client,
      this.notebook.uri,
      this.kernelspec
    );
    if (!this._isDisposed) {
      this._open(kernel);
    }
  }

  private _open(kernel: string): void {
    const { session, store } = this._services;
    const { kernelspec, notebook } = this;
    const stored = store.kernel(notebook.uri);
    const client = session.connection?.client;
    const server =
      stored?.kernel === kernel
        ? stored.server
        : client && placeOf(client.server);
    store.setKernel(notebook.uri, {
      kernel,
      kernelspec,
      server: server ?? ''
    });
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
        onOffer: requests => {
          const count = this._cells.takeUpOffered(requests);
          this._services.log(
            `${this._name}: ${requests.length} requests are offered, of ${count} cells`
          );
        },
        onUnknown: (request, hadIt) =>
          this._cells.handleUnknown(request, hadIt),
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
    const { session, store } = this._services;
    const client = session.connection?.client;
    if (client) {
      void reportLost(client, store, this.notebook);
    } else {
      store.setKernel(this.notebook.uri, null);
    }
    this._endAll();
    this._socket?.dispose();
    this._socket = undefined;
    this._changed.fire();
    void this._find();
  }

  private async _act(action: 'interrupt' | 'restart'): Promise<void> {
    const client = this._services.session.connection?.client;
    if (client && this._socket) {
      await client.jupyter('POST', `kernels/${this._kernel}/${action}`);
    }
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

  /** The kernel has restarted, or is gone: nothing that was sent is answered. */
  private _endAll(except?: string): void {
    this._isBusy = false;
    this._cellSession = '';
    this._inputs.dispose();
    this._asked.clear();
    this.widgets.reset();
    this._cells.endAll(except);
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
      this._noteStatus(message);
    }
    if (
      header.msg_type === 'execute_input' &&
      this._cells.takeUpOthers(message)
    ) {
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
      this._cells.update(content);
    } else if (header.msg_type === 'input_request') {
      this._inputs.ask(message);
    } else {
      this._cells.receive(message);
      if (channel === 'shell') {
        this._inputs.closeOf(parent);
      }
    }
  }

  private _noteStatus({ content, header, parent_header }: IMessage): void {
    const state: string = content.execution_state;
    const { session } = header;
    if (parent_header.msg_type === 'execute_request') {
      // The kernel may say that it starts before anybody listens.
      if (this._cellSession && this._cellSession !== session) {
        this._endAll(parent_header.msg_id);
        void this.widgets.load();
      }
      this._cellSession = session;
    }
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

  readonly widgets: KernelWidgets;
  /** Its session, for Jupyter: the server offers a new one what it has missed. */
  private _client = randomUUID();
  private _asked = new Map<string, (reply: unknown) => void>();
  private _cells: CellRuns;
  /** The session of the kernel that answered the last cell. */
  private _cellSession = '';
  private _changed = new vscode.EventEmitter<void>();
  private _inputs: InputBoxes;
  private _isBusy = false;
  private _isDisposed = false;
  private _kernel = '';
  /** The session of the kernel's own messages: another one after a restart. */
  private _kernelSession = '';
  private _socket?: JournalSocket;
  private _starting?: Promise<void>;
}

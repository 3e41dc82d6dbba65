// The server of this window: which one it is, and what it says of TPUs.

import { setTimeout } from 'node:timers/promises';
import { ISignal, Signal } from '@lumino/signaling';

import { Resources } from '../../labextension/src/model/resources';
import { Synchronizer } from '../../labextension/src/model/synchronizer';
import { Store } from '../../labextension/src/state/observable';
import { IServer, NodeClient } from './client';
import { EventFeed } from './eventFeed';
import { KnownServer } from './knownServer';
import { Finding, findServer } from './localServer';
import { isTaken } from './portOwner';

/** "idle": nothing has been looked for yet, also because the workspace is not trusted. */
export type State = 'idle' | 'searching' | 'starting' | Finding['state'];

/** How the server is found: by a Python on this machine, or by its address. */
export type Source =
  | {
      python: string;
      environment: NodeJS.ProcessEnv;
      /** Those of them that the user has set. */
      variables: Record<string, string>;
    }
  | { server: IServer };

/** A running server, and what it has. */
export interface IConnection {
  client: NodeClient;
  events: EventFeed;
  resources: Resources;
  sync: Synchronizer;
}

/** Reasons for which the server is looked for again: it ended, or another one has its port. */
const GONE = ['NETWORK', 'DENIED', 'MISSING'];

/** Milliseconds after which a Python is asked whether the server of last time is still the right one. */
const CONFIRM = 3000;

export class Session extends Store {
  /** *source* asks nobody: it is what the user has chosen. *log* takes what happens, a line each. */
  constructor(
    private _source: () => Promise<Source>,
    private _log: (line: string) => void,
    private _known: KnownServer
  ) {
    super();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._abort.abort();
      this._unwatch();
      this._disconnect();
      super.dispose();
    }
  }

  get state(): State {
    return this._state;
  }

  /** What Python said, if the state is "failed" or "broken". */
  get message(): string {
    return this._message;
  }

  /** The program that was run; "" before. */
  get python(): string {
    return this._python;
  }

  get connection(): IConnection | null {
    return this._connection;
  }

  /** Another user listens at the address of the server: nothing is sent there. */
  get portTaken(): ISignal<this, IServer> {
    return this._portTaken;
  }

  /**
   * Looks for the server again, and with *start* starts one if there is none.
   *
   * Resolves with it; `state` says why there is none. One search at a time: a second one waits.
   */
  async search(start = false): Promise<IConnection | null> {
    while (this._searching) {
      const found = await this._searching;
      if (found || !start) {
        return found;
      }
    }
    this._searching = this._search(start).finally(() => {
      this._searching = null;
    });
    return this._searching;
  }

  /** The server, found or started now if there is none yet. */
  async connect(): Promise<IConnection | null> {
    return this._connection ?? this.search(true);
  }

  private async _search(start: boolean): Promise<IConnection | null> {
    this._setState(start ? 'starting' : 'searching');
    let finding: Finding;
    try {
      const source = await this._source();
      if ('server' in source) {
        this._python = '';
        finding = { state: 'running', server: source.server };
      } else {
        this._python = source.python;
        const by = JSON.stringify([source.python, source.variables]);
        const known = this._connection ? null : await this._known.read(by);
        if (known && !this.isDisposed) {
          this._log(`The server at ${known.url} still runs`);
          this._use(known);
          this._setState('running');
          // What a Python needs of the computer is needed now, by notebooks.
          await setTimeout(CONFIRM, undefined, { signal: this._abort.signal });
        }
        this._log(
          `${start ? 'Finding or starting' : 'Finding'} a server with ${source.python}`
        );
        finding = await findServer(
          source.python,
          start,
          source.environment,
          this._abort.signal
        );
        if (finding.state === 'running') {
          void this._known.keep(by, finding.server);
        }
      }
    } catch (error) {
      finding = { state: 'failed', message: (error as Error).message };
    }
    if (this.isDisposed) {
      return null;
    }
    // The next server is found as soon as it runs.
    this._unwatch();
    this._unwatch =
      finding.state === 'running'
        ? () => undefined
        : this._known.watch(() => void this.search());
    const message = 'message' in finding ? finding.message : '';
    if (finding.state === 'running') {
      this._log(`Using the server at ${finding.server.url}`);
      this._use(finding.server);
    } else {
      this._log(`No server: ${finding.state} ${message}`.trim());
    }
    // Before it is forgotten; one at a given address is always found.
    const server = this._connection?.client.server;
    if (server && server !== this._taken && isTaken(server)) {
      this._taken = server;
      this._portTaken.emit(server);
    }
    if (finding.state !== 'running') {
      this._disconnect();
    }
    this._setState(finding.state, message);
    return this._connection;
  }

  /** Nothing changes if it is the same server as before. */
  private _use(server: IServer): void {
    const now = this._connection?.client.server;
    if (now?.url === server.url && now.token === server.token) {
      return;
    }
    this._disconnect();
    const client = new NodeClient(server);
    const events = new EventFeed(server);
    const sync = new Synchronizer(client, events);
    sync.stateChanged.connect(this._onSync, this);
    this._connection = { client, events, resources: sync, sync };
    sync.open();
    void sync.refresh(false);
  }

  private _disconnect(): void {
    const connection = this._connection;
    this._connection = null;
    connection?.sync.dispose();
  }

  private _onSync(sync: Synchronizer): void {
    if (sync !== this._connection?.sync) {
      return;
    }
    const reason = sync.problem?.reason ?? '';
    if (GONE.includes(reason) && !this._missed) {
      this._missed = true;
      this._log(`The server does not answer: ${reason}`);
      void this.search();
    } else if (!reason) {
      this._missed = false;
    }
    this.changed();
  }

  private _setState(state: State, message = ''): void {
    this._state = state;
    this._message = message;
    this.changed();
  }

  private _abort = new AbortController();
  private _connection: IConnection | null = null;
  private _message = '';
  /** The server was looked for since its last answer. */
  private _missed = false;
  private _portTaken = new Signal<this, IServer>(this);
  private _python = '';
  private _searching: Promise<IConnection | null> | null = null;
  private _state: State = 'idle';
  /** The server of which `portTaken` was said. */
  private _taken?: IServer;
  private _unwatch = () => {};
}

// A server for the tests: real requests up to the wire, answers from a table.

import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { expect } from 'vitest';

import { IServerKernels } from '../kernels/serverKernels';
import { IChangeFeed } from '../model/changeFeed';
import { TPUModel } from '../model/model';
import {
  IApp,
  ICatalog,
  IChange,
  IGrant,
  IHunt,
  IJob,
  IKernel,
  IOperation,
  IQueuedResource,
  ISession,
  ITPU,
  ITunnel
} from '../rest/api';
import { TPUClient } from '../rest/client';
import { keyOf } from '../rest/tpuRef';
import { Store } from '../state/observable';
import { aStatus, catalog } from './builders';

export * from './builders';

export const trans = nullTranslator.load('jupyter_tpu');

export interface ICall {
  method: string;
  path: string;
  query: string;
  body: unknown;
}

/** What a call is answered with; a function may look at the call. */
export type Answer = [number, unknown] | ((call: ICall) => [number, unknown]);

/** Answers by "METHOD path"; what it is asked for is in `calls`. */
export class TestServer {
  readonly calls: ICall[] = [];
  readonly answers: { [call: string]: Answer | 'no network' };
  readonly settings: ServerConnection.ISettings;

  constructor(answers: { [call: string]: Answer | 'no network' } = {}) {
    this.answers = {
      ...listOf(),
      'GET operations': [200, []],
      'GET tunnels': [200, []],
      'GET apps': [200, []],
      'GET hunts': [200, []],
      'GET jobs': [200, []],
      'GET sessions': [200, []],
      'GET catalog': [200, catalog],
      'GET status': [200, aStatus()],
      ...answers
    };
    this.settings = ServerConnection.makeSettings({
      baseUrl: 'http://localhost/hub/',
      fetch: (request: RequestInfo) => this._fetch(request as Request)
    } as never);
  }

  /** How often a route was called. */
  count(call: string): number {
    return this.bodies(call).length;
  }

  /** What a route was called with, each time. */
  bodies(call: string): unknown[] {
    return this.calls
      .filter(one => `${one.method} ${one.path}` === call)
      .map(one => one.body);
  }

  /** Waits until a route was called with these bodies, and no others. */
  async receives(call: string, ...bodies: unknown[]): Promise<void> {
    await expect.poll(() => this.bodies(call)).toEqual(bodies);
  }

  /** Waits until a route was called so often. */
  async counts(call: string, count = 1): Promise<void> {
    await expect.poll(() => this.count(call)).toBe(count);
  }

  /** What was posted, in order. */
  get posts(): unknown[] {
    const posts = this.calls.filter(({ method }) => method === 'POST');
    return posts.map(({ body }) => body);
  }

  private async _fetch(request: Request): Promise<Response> {
    const [path, query = ''] = decodeURIComponent(
      request.url.replace('http://localhost/hub/jupyter-tpu/v1/', '')
    ).split('?');
    const text = await request.text();
    const call = {
      method: request.method,
      path,
      query,
      body: text ? JSON.parse(text) : null
    };
    this.calls.push(call);
    const answer = this.answers[`${call.method} ${path}`] ?? [404, '<html>'];
    if (answer === 'no network') {
      throw new TypeError('Failed to fetch');
    }
    const [status, body] = typeof answer === 'function' ? answer(call) : answer;
    const payload = typeof body === 'string' ? body : JSON.stringify(body);
    return new Response(status === 204 ? null : payload, { status });
  }
}

/** Changes that the test makes. */
export class TestChangeFeed implements IChangeFeed {
  readonly changed = new Signal<this, IChange>(this);
  readonly connectedChanged = new Signal<this, boolean>(this);
  connected = true;
  isDisposed = false;

  dispose(): void {
    this.isDisposed = true;
  }

  flow(connected: boolean): void {
    this.connected = connected;
    this.connectedChanged.emit(connected);
  }

  tpu = (tpu: ITPU) => this._emit('tpu', keyOf(tpu), { tpu });
  operation = (operation: IOperation) =>
    this._emit('operation', operation.id, { operation });
  grant = (grant: IGrant) => this._emit('grant', grant.name, { grant });
  queued = (queued: IQueuedResource) =>
    this._emit('queued', keyOf(queued), { queued });
  kernel = (kernel: IKernel) => this._emit('kernel', kernel.id, { kernel });
  tunnel = (tunnel: ITunnel) => this._emit('tunnel', tunnel.id, { tunnel });
  hunt = (hunt: IHunt) => this._emit('hunt', hunt.id, { hunt });
  job = (job: IJob) => this._emit('job', job.id, { job });
  app = (app: IApp) => this._emit('app', app.id, { app });
  session = (session: ISession) =>
    this._emit('session', session.id, { session });
  gone = (what: IChange['what'], id: string) =>
    this._emit(what, id, { gone: true });

  private _emit(
    what: IChange['what'],
    id: string,
    more: Partial<IChange>
  ): void {
    const none = {
      gone: false,
      tpu: null,
      operation: null,
      kernel: null,
      tunnel: null,
      app: null,
      run: null,
      job: null,
      hunt: null,
      grant: null,
      queued: null,
      prices: null,
      budgets: null,
      session: null
    };
    this.changed.emit({ what, id, ...none, ...more });
  }
}

/** Opens none. */
export const noExamples = { open: async (): Promise<void> => undefined };

/** The kernels of a Jupyter server that has none, until the test says so. */
export class TestServerKernels extends Store implements IServerKernels {
  readonly ids = new Set<string>();
  readonly shown: string[] = [];

  has(id: string): boolean {
    return this.ids.has(id);
  }

  async shutDown(): Promise<boolean> {
    return true;
  }

  async show(id: string): Promise<void> {
    this.ids.add(id);
    this.changed();
    this.shown.push(id);
  }
}

/** The list of TPUs. */
export function listOf(...tpus: object[]): { [call: string]: Answer } {
  return { 'GET tpus': [200, { tpus, problem: null }] };
}

/** The usual catalog, with changes. */
export function catalogWith(more: Partial<ICatalog>): {
  [call: string]: Answer;
} {
  return { 'GET catalog': [200, { ...catalog, ...more }] };
}

/** A model that has asked its server for everything. */
export async function openModel(
  answers: { [call: string]: Answer | 'no network' } = {}
): Promise<{ model: TPUModel; server: TestServer; changes: TestChangeFeed }> {
  const server = new TestServer(answers);
  const changes = new TestChangeFeed();
  const model = new TPUModel(new TPUClient(server.settings), changes);
  await model.refresh();
  return { model, server, changes };
}

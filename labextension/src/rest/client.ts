// The one file that calls the server extension's REST interface. The requests of the fleet are made
// from its routes; here is how they are sent, and what is more than a request.

import { ServerConnection } from '@jupyterlab/services';

import { language } from '../language/translation';
import { addressOf } from './address';
import { IAppVisit, IGuard, IHostFile, IVisitApp } from './api';
import { answerOf, Failure } from './failure';
import { FleetRequests, IParameters, IQuery, IReference } from './requests';
import { TPURef } from './tpuRef';
import type { IUploadOptions } from './upload';

Failure.isNetworkError = error =>
  error instanceof ServerConnection.NetworkError;

/** The server extension. Every method throws `Failure`. */
export class TPUClient extends FleetRequests {
  constructor(private _settings: ServerConnection.ISettings) {
    super();
  }

  /** The guard of a TPU, as its host says; null if it has none. */
  async findGuard(tpu: TPURef): Promise<IGuard | null> {
    try {
      return await this.guards.get(tpu);
    } catch (error) {
      if (error instanceof Failure && error.reason === 'NOT_FOUND') {
        return null;
      }
      throw error;
    }
  }

  /** As `apps.visit`, with a complete address as `server_path`. */
  async visitApp(id: string, request: IVisitApp): Promise<IAppVisit> {
    const visit = await this.apps.visit(id, request);
    const { baseUrl } = this._settings;
    const server_path =
      visit.server_path && new URL(visit.server_path, baseUrl).href;
    return { ...visit, server_path };
  }

  /** The name of a new terminal of the Jupyter server, which is a shell on a host. */
  openTerminal(tpu: TPURef, host: number): Promise<{ name: string }> {
    const path = ['tpus', tpu, 'hosts', `${host}`, 'terminals'];
    return this.send('POST', path, { body: {} });
  }

  /** What a file of a host is. */
  file(tpu: TPURef, host: number, path: string): Promise<IHostFile> {
    return this.send('GET', this._files(tpu, host), { query: { path } });
  }

  /** Where the browser downloads a file of a host from. */
  fileURL(tpu: TPURef, host: number, path: string): string {
    return this._url([...this._files(tpu, host), 'content'], { path });
  }

  async upload(
    tpu: TPURef,
    host: number,
    path: string,
    content: Blob,
    options: IUploadOptions = {}
  ): Promise<IHostFile> {
    const url = this._url([...this._files(tpu, host), 'content'], {
      path,
      overwrite: String(options.overwrite ?? false)
    });
    const { putFile } = await import('./upload');
    return answerOf(putFile(url, content, this._settings, options));
  }

  protected send<T>(
    method: string,
    path: (string | IReference)[],
    { body, query, signal }: IParameters
  ): Promise<T> {
    const init = {
      method,
      signal,
      body: body && JSON.stringify(body),
      headers: { 'Accept-Language': language }
    };
    return answerOf(this._exchange(this._url(path, query), init));
  }

  private async _exchange(url: string, init: RequestInit) {
    const { makeRequest } = ServerConnection;
    const response = await makeRequest(url, init, this._settings);
    return { status: response.status, text: await response.text() };
  }

  private _files(tpu: TPURef, host: number): (string | IReference)[] {
    return ['tpus', tpu, 'hosts', `${host}`, 'files'];
  }

  private _url(path: (string | IReference)[], query: IQuery = {}): string {
    return addressOf(this._settings.baseUrl, path, query);
  }
}

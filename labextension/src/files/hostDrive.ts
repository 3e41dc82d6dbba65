// The files of a host as a drive of JupyterLab, over Jupyter's own contents protocol.

import { URLExt } from '@jupyterlab/coreutils';
import { Contents, Drive, ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { trans } from '../language/translation';
import { keyOf, TPURef } from '../rest/tpuRef';

/** A host of a TPU. */
export interface IHostRef extends TPURef {
  host: number;
}

/** What the server says of a path, beside what Jupyter knows. */
interface IHostContents extends Contents.IModel {
  left_out?: number;
  home?: string;
}

/** A folder of which only a part is listed. */
export interface IPartialFolder {
  path: string;
  listed: number;
  left_out: number;
}

/** The name before the colon of a path: the TPU's, with the numbers of other hosts than the first. */
export function driveName({ name, host }: IHostRef): string {
  return host === 0 ? name : `${name}-${host}`;
}

export class HostDrive extends Drive {
  constructor(
    readonly place: IHostRef,
    serverSettings: ServerConnection.ISettings,
    name = driveName(place)
  ) {
    const tpu = encodeURIComponent(keyOf(place).replace('/', '~'));
    const host = `jupyter-tpu/v1/tpus/${tpu}/hosts/${place.host}`;
    super({ name, apiEndpoint: `${host}/contents`, serverSettings });
    this._files = URLExt.join(serverSettings.baseUrl, host, 'files/content');
  }

  /** Emitted when a folder is too large to be listed whole. */
  readonly partialFolder = new Signal<this, IPartialFolder>(this);

  /** The path of the home folder. Throws if the host can't be reached. */
  async home(): Promise<string> {
    const root: IHostContents = await super.get('', { content: false });
    return root.home ?? '';
  }

  async get(
    path: string,
    options?: Contents.IFetchOptions
  ): Promise<Contents.IModel> {
    const contents: IHostContents = await super.get(path, options);
    if (contents.left_out) {
      const listed = contents.content.length;
      this.partialFolder.emit({ path, listed, left_out: contents.left_out });
    }
    return contents;
  }

  async getDownloadUrl(path: string): Promise<string> {
    return this._files + URLExt.objectToQueryString({ path: `/${path}` });
  }

  // A host keeps no checkpoints: what was saved is the only version.

  async listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return [];
  }

  async createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return { id: 'none', last_modified: new Date().toISOString() };
  }

  restoreCheckpoint(): Promise<void> {
    return Promise.reject(
      new Error(trans.__('A TPU’s host keeps no checkpoints.'))
    );
  }

  deleteCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  private _files: string;
}

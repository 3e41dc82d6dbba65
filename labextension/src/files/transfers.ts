// Uploads to a host and downloads from it, with the questions before and the notifications after.

import { Notification } from '@jupyterlab/apputils';

import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { Failure } from '../rest/failure';
import { failureLine } from '../ui/failures';
import { trans } from '../ui/translation';
import { SUCCESS_TIMEOUT } from '../ui/wait';

export class FileTransfers {
  constructor(private _model: TPUModel) {}

  /** Asks for files, and uploads them one after the other. */
  async upload(tpu: ITPU): Promise<void> {
    const chosen = await (await import('./fileDialogs')).askUpload(tpu);
    const folder = chosen?.folder.replace(/\/+$/, '') ?? '';
    const root = chosen?.folder.startsWith('/') ? '/' : '';
    for (const file of chosen?.files ?? []) {
      const path = (folder ? `${folder}/` : root) + file.name;
      await this._upload(tpu, chosen!.host, path, file);
    }
  }

  /** Asks for a file, and has the browser download it. */
  async download(tpu: ITPU): Promise<void> {
    const { askDownload } = await import('./fileDialogs');
    await askDownload(tpu, async ({ host, path }) => {
      // The browser would save an error's text as the file.
      await this._model.client.file(tpu, host, path);
      const link = document.createElement('a');
      link.href = this._model.client.fileURL(tpu, host, path);
      link.download = '';
      document.body.append(link);
      link.click();
      link.remove();
    });
  }

  private async _upload(
    tpu: ITPU,
    host: number,
    path: string,
    file: File
  ): Promise<void> {
    try {
      let overwrite = false;
      // Asked before anything is sent. The server makes sure.
      let exists = await this._exists(tpu, host, path);
      do {
        if (exists) {
          overwrite = await (
            await import('./fileDialogs')
          ).askOverwrite(path, tpu);
          if (!overwrite) {
            return;
          }
        }
        exists = await this._send(tpu, host, path, file, overwrite);
      } while (exists);
    } catch (error) {
      const why = this._why(error);
      Notification.error(trans.__('%1 could not be uploaded: %2', path, why), {
        autoClose: false
      });
    }
  }

  /** Uploads a file, with its progress as a notification. Returns whether it exists and stays. */
  private async _send(
    tpu: ITPU,
    host: number,
    path: string,
    file: File,
    overwrite: boolean
  ): Promise<boolean> {
    const aborter = new AbortController();
    const { signal } = aborter;
    const cancel = {
      label: trans.__('Cancel'),
      callback: () => aborter.abort()
    };
    const id = Notification.emit(
      trans.__('Uploading %1 to %2', path, tpu.name),
      'in-progress',
      { autoClose: false, progress: 0, actions: [cancel] }
    );
    const onProgress = (progress: number) => {
      Notification.update({ id, progress });
    };
    try {
      const options = { overwrite, signal, onProgress };
      await this._model.client.upload(tpu, host, path, file, options);
    } catch (error) {
      if (error instanceof Failure && error.reason === 'EXISTS') {
        return true;
      }
      if (!signal.aborted) {
        throw error;
      }
      return false;
    } finally {
      Notification.dismiss(id);
    }
    Notification.success(trans.__('Uploaded %1 to %2', path, tpu.name), {
      autoClose: SUCCESS_TIMEOUT
    });
    return false;
  }

  private async _exists(
    tpu: ITPU,
    host: number,
    path: string
  ): Promise<boolean> {
    try {
      await this._model.client.file(tpu, host, path);
      return true;
    } catch (error) {
      if (error instanceof Failure && error.reason === 'NOT_FOUND') {
        return false;
      }
      throw error;
    }
  }

  private _why(error: unknown): string {
    return failureLine(error);
  }
}

/** Asks for files, and uploads them. */
export function upload(tpu: ITPU, model: TPUModel): Promise<void> {
  return new FileTransfers(model).upload(tpu);
}

/** Asks for a file, and has the browser download it. */
export function download(tpu: ITPU, model: TPUModel): Promise<void> {
  return new FileTransfers(model).download(tpu);
}

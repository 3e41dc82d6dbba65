// The upload of a file. Not with `fetch`, which does not say how much it has sent.

import { ServerConnection } from '@jupyterlab/services';

import { language } from '../language/translation';

/** How an upload is watched and ended. */
export interface IUploadOptions {
  /** A file of this name is replaced. */
  overwrite?: boolean;
  /** Called with the part that was sent, 0 to 1. */
  onProgress?: (part: number) => void;
  /** Ends it: nothing of the file stays. */
  signal?: AbortSignal;
}

/** The answer's status and text. Rejects where there is no answer, also when it was cancelled. */
export function putFile(
  url: string,
  content: Blob,
  settings: ServerConnection.ISettings,
  { onProgress, signal }: IUploadOptions
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('PUT', url);
    request.withCredentials = true;
    request.setRequestHeader('Accept-Language', language);
    if (settings.token) {
      request.setRequestHeader('Authorization', `token ${settings.token}`);
    }
    const xsrf = /\b_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    if (xsrf) {
      request.setRequestHeader('X-XSRFToken', xsrf);
    }
    request.upload.onprogress = event =>
      onProgress?.(event.total ? event.loaded / event.total : 1);
    request.onload = () =>
      resolve({ status: request.status, text: request.responseText });
    request.onerror = request.onabort = () => reject(new Error('no answer'));
    signal?.addEventListener('abort', () => request.abort());
    request.send(content);
  });
}

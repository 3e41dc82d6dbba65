// Uploads to a host and downloads from it, with the questions before and the notifications after.

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { Failure } from '../rest/failure';
import { failureLine } from '../rest/failureText';
import { confirm } from '../ui/confirm';
import { hostField } from '../ui/fields';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';
import { waitOrThrow } from '../ui/wait';

/** Asks for files, and uploads them one after the other. */
export async function upload(tpu: ITPU, model: TPUModel): Promise<void> {
  const chosen = await ask({
    title: trans.__('Upload Files to %1', tpu.name),
    accept: trans.__('Upload'),
    initial: { host: 0, folder: '', files: [] as File[] },
    fields: ({ host }) => [
      {
        name: 'files',
        label: trans.__('Files'),
        kind: 'files',
        required: true
      },
      {
        name: 'folder',
        label: trans.__('Folder on the host (optional)'),
        help: trans.__('Empty: the home folder, where kernels start.'),
        kind: 'path',
        place: { tpu, host, folder: true },
        placeholder: '~'
      },
      hostField(tpu)
    ]
  });
  const folder = chosen?.folder.replace(/\/+$/, '') ?? '';
  const root = chosen?.folder.startsWith('/') ? '/' : '';
  for (const file of chosen?.files ?? []) {
    const path = (folder ? `${folder}/` : root) + file.name;
    try {
      await uploadFile(tpu, model, chosen!.host, path, file);
    } catch (error) {
      const why = failureLine(error);
      notify.error(trans.__('%1 could not be uploaded: %2', path, why));
    }
  }
}

/** Asks for a file, and has the browser download it. */
export async function download(tpu: ITPU, model: TPUModel): Promise<void> {
  await ask({
    title: trans.__('Download a File from %1', tpu.name),
    accept: trans.__('Download'),
    initial: { host: 0, path: '' },
    fields: ({ host }) => [
      {
        name: 'path',
        label: trans.__('File on the host'),
        help: trans.__(
          'Relative to the home folder, such as runs/loss.csv, or an absolute path. For a folder, use Copy Files and Folders.'
        ),
        kind: 'path',
        place: { tpu, host },
        required: true
      },
      hostField(tpu)
    ],
    submit: async ({ host, path }) => {
      // The browser would save an error's text as the file.
      await model.client.file(tpu, host, path);
      const link = document.createElement('a');
      link.href = model.client.fileURL(tpu, host, path);
      link.download = '';
      document.body.append(link);
      link.click();
      link.remove();
    }
  });
}

/** Uploads a file, and asks before it replaces one. Throws `Failure`, but not if it is cancelled. */
async function uploadFile(
  tpu: ITPU,
  { client }: TPUModel,
  host: number,
  path: string,
  file: File
): Promise<void> {
  const refused = (reason: string) => (error: unknown) => {
    if (error instanceof Failure && error.reason === reason) {
      return false as const;
    }
    throw error;
  };
  const exists = () => true;
  // Asked before anything is sent. The server makes sure.
  const known = client.file(tpu, host, path);
  let overwrite = await known.then(exists, refused('NOT_FOUND'));
  while (!overwrite || (await confirmOverwrite(path, tpu))) {
    const options = { overwrite };
    const sent = await waitOrThrow(
      trans.__('Uploading %1 to %2', path, tpu.name),
      (signal, onProgress) =>
        client.upload(tpu, host, path, file, { ...options, signal, onProgress })
    ).catch(refused('EXISTS'));
    if (sent) {
      notify.success(trans.__('Uploaded %1 to %2', path, tpu.name));
    }
    if (sent !== false) {
      return;
    }
    overwrite = true;
  }
}

/** Enter alone leaves the file. */
function confirmOverwrite(path: string, tpu: ITPU): Promise<boolean> {
  return confirm(
    trans.__('Overwrite %1?', path),
    trans.__('A file with this name exists on %1.', tpu.name),
    trans.__('Overwrite'),
    { cancel: trans.__('Skip') }
  );
}

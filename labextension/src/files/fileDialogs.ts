// The dialogs that ask for files to upload to a host, and for a file to download.

import { ITPU } from '../rest/api';
import { confirm } from '../ui/confirm';
import { hostField } from '../ui/fields';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';

/** Files of this computer, and where they go. */
export interface IUpload {
  host: number;
  /** "" for the home folder. */
  folder: string;
  files: File[];
}

export interface IDownload {
  host: number;
  path: string;
}

/** Asks for files and their folder on a host; null if there is nothing to upload. */
export async function askUpload(tpu: ITPU): Promise<IUpload | null> {
  const upload = await ask<IUpload>({
    title: trans.__('Upload Files to %1', tpu.name),
    accept: trans.__('Upload'),
    initial: { host: 0, folder: '', files: [] },
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
  return upload?.files.length ? upload : null;
}

/** Asks for the file to download, and begins that with *submit*. */
export async function askDownload(
  tpu: ITPU,
  submit: (download: IDownload) => Promise<void>
): Promise<void> {
  await ask<IDownload>({
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
    submit
  });
}

/** What to do with a file that exists on the host; Enter alone leaves it. */
export function askOverwrite(path: string, tpu: ITPU): Promise<boolean> {
  return confirm(
    trans.__('Overwrite %1?', path),
    trans.__('A file with this name exists on %1.', tpu.name),
    trans.__('Overwrite'),
    { cancel: trans.__('Skip') }
  );
}

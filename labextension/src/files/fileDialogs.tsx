// The dialogs that ask for files to upload to a host, and for a file to download.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { ITPU } from '../rest/api';
import { Field, TextField } from '../ui/field';
import { ask } from '../ui/formDialog';
import { HostField } from '../ui/hostField';
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
  const empty: IUpload = { host: 0, folder: '', files: [] };
  const upload = await ask(
    trans.__('Upload files to %1', tpu.name),
    trans.__('Upload'),
    empty,
    (value, change) => (
      <>
        <Field label={trans.__('Files')}>
          {attributes => (
            <input
              {...attributes}
              type="file"
              multiple
              required
              onChange={event =>
                change({ files: [...(event.target.files ?? [])] })
              }
            />
          )}
        </Field>
        <TextField
          label={trans.__('Folder on the host (optional)')}
          help={trans.__('Empty: the home folder, where kernels start.')}
          placeholder="~"
          value={value.folder}
          onChange={folder => change({ folder })}
        />
        <HostField
          tpu={tpu}
          host={value.host}
          onChange={host => change({ host })}
        />
      </>
    )
  );
  return upload?.files.length ? upload : null;
}

/** Asks for the file to download; null if there is none. */
export async function askDownload(tpu: ITPU): Promise<IDownload | null> {
  const empty: IDownload = { host: 0, path: '' };
  const download = await ask(
    trans.__('Download a file from %1', tpu.name),
    trans.__('Download'),
    empty,
    (value, change) => (
      <>
        <TextField
          label={trans.__('File on the host')}
          help={trans.__(
            'Relative to the home folder, such as runs/loss.csv, or an absolute path. For a folder, use Copy Files and Folders.'
          )}
          required
          value={value.path}
          onChange={path => change({ path })}
        />
        <HostField
          tpu={tpu}
          host={value.host}
          onChange={host => change({ host })}
        />
      </>
    )
  );
  return download?.path ? download : null;
}

/** What to do with a file that exists on the host; Enter alone leaves it. */
export async function askOverwrite(path: string, tpu: ITPU): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('Overwrite %1?', path),
    body: trans.__('A file with this name exists on %1.', tpu.name),
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Skip') }),
      Dialog.warnButton({ label: trans.__('Overwrite') })
    ]
  });
  return result.button.accept;
}

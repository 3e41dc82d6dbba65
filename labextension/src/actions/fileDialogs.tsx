// The dialogs that ask for files to upload to a host, and for a file to download.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { ITPU } from '../api';
import { Field } from '../panel/field';
import { HostField } from '../panel/hostField';

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
export async function askUpload(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IUpload | null> {
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
        <Field
          label={trans.__('Folder on the host (optional)')}
          help={trans.__('Empty: the home folder, where kernels start.')}
        >
          {attributes => (
            <input
              {...attributes}
              className="jp-mod-styled"
              placeholder="~"
              onChange={event => change({ folder: event.target.value })}
            />
          )}
        </Field>
        <HostField
          tpu={tpu}
          host={value.host}
          trans={trans}
          onChange={host => change({ host })}
        />
      </>
    ),
    trans
  );
  return upload?.files.length ? upload : null;
}

/** Asks for the file to download; null if there is none. */
export async function askDownload(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IDownload | null> {
  const empty: IDownload = { host: 0, path: '' };
  const download = await ask(
    trans.__('Download a file from %1', tpu.name),
    trans.__('Download'),
    empty,
    (value, change) => (
      <>
        <Field
          label={trans.__('File on the host')}
          help={trans.__(
            'Relative to the home folder, such as runs/loss.csv, or beginning with /.'
          )}
        >
          {attributes => (
            <input
              {...attributes}
              className="jp-mod-styled"
              required
              onChange={event => change({ path: event.target.value })}
            />
          )}
        </Field>
        <HostField
          tpu={tpu}
          host={value.host}
          trans={trans}
          onChange={host => change({ host })}
        />
      </>
    ),
    trans
  );
  return download?.path ? download : null;
}

/** What to do with a file that exists on the host; Enter alone leaves it. */
export async function askOverwrite(
  path: string,
  tpu: ITPU,
  trans: TranslationBundle
): Promise<boolean> {
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

type Render<T> = (value: T, change: (more: Partial<T>) => void) => JSX.Element;

/** A dialog with fields; null if it was cancelled. */
export async function ask<T>(
  title: string,
  accept: string,
  initial: T,
  render: Render<T>,
  trans: TranslationBundle
): Promise<T | null> {
  const result = await showDialog({
    title,
    body: new Body(initial, render),
    focusNodeSelector: 'input',
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: accept })
    ]
  });
  return result.button.accept ? result.value : null;
}

class Body<T> extends ReactWidget implements Dialog.IBodyWidget<T> {
  constructor(
    private _value: T,
    private _fields: Render<T>
  ) {
    super();
    this.addClass('jp-tpu-Dialog');
  }

  getValue(): T {
    return this._value;
  }

  protected render(): JSX.Element {
    return (
      <Fields
        initial={this._value}
        render={this._fields}
        onChange={value => {
          this._value = value;
        }}
      />
    );
  }
}

function Fields<T>(props: {
  initial: T;
  render: Render<T>;
  onChange: (value: T) => void;
}): JSX.Element {
  const [value, setValue] = useState(props.initial);
  return props.render(value, more => {
    const now = { ...value, ...more };
    setValue(now);
    props.onChange(now);
  });
}

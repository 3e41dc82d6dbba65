// The dialog that asks which folder to sync with a TPU.

import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { ISyncProject, ITPU } from '../rest/api';
import { Field, TextField } from '../ui/field';
import { ask } from '../ui/formDialog';
import { HostField } from '../ui/hostField';
import { trans } from '../ui/translation';

/** Asks for the folders and the direction; null if there is nothing to do. */
export async function askSync(
  tpu: ITPU,
  last: string
): Promise<ISyncProject | null> {
  const empty = {
    folder: last || PageConfig.getOption('serverRoot'),
    remote: '',
    host: 0,
    pull: false,
    watch: false
  };
  const request = await ask(
    trans.__('Sync a folder with %1', tpu.name),
    trans.__('Sync'),
    empty,
    (value, change) => (
      <>
        <TextField
          label={trans.__('Folder on the computer that runs Jupyter')}
          help={trans.__(
            'Files excluded by .gitignore are not copied. A file that was changed on both sides is not overwritten.'
          )}
          required
          value={value.folder}
          onChange={folder => change({ folder })}
        />
        <TextField
          label={trans.__('Folder on the TPU (optional)')}
          help={trans.__('Empty: the same name, in the home folder.')}
          placeholder={`~/${PathExt.basename(value.folder)}`}
          value={value.remote}
          onChange={remote => change({ remote })}
        />
        <Field label={trans.__('Direction')}>
          {attributes => (
            <HTMLSelect
              {...attributes}
              value={value.pull ? 'pull' : value.watch ? 'watch' : 'push'}
              onChange={event =>
                change({
                  pull: event.target.value === 'pull',
                  watch: event.target.value === 'watch'
                })
              }
            >
              <option value="push">
                {trans.__('To all hosts of the TPU, once')}
              </option>
              <option value="watch">
                {trans.__('To all hosts, and after each change')}
              </option>
              <option value="pull">{trans.__('From the TPU to here')}</option>
            </HTMLSelect>
          )}
        </Field>
        {value.pull && (
          <HostField
            tpu={tpu}
            host={value.host}
            onChange={host => change({ host })}
          />
        )}
      </>
    )
  );
  return request?.folder ? request : null;
}

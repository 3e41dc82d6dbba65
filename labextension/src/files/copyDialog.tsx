// The dialog that asks what to copy between the computer that runs Jupyter and a TPU.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { ICopyFiles, ITPU } from '../rest/api';
import { Field, TextField } from '../ui/field';
import { ask } from '../ui/formDialog';
import { HostField } from '../ui/hostField';
import { trans } from '../ui/translation';

/** Asks for the source, the destination and the direction; null if there is nothing to do. */
export async function askCopy(tpu: ITPU): Promise<ICopyFiles | null> {
  const empty = { way: 'up', source: '', destination: '', host: 0 };
  const chosen = await ask(
    trans.__('Copy files and folders to or from %1', tpu.name),
    trans.__('Copy'),
    empty,
    (value, change) => {
      const down = value.way === 'down';
      const here = trans.__('On the computer that runs Jupyter');
      const there = trans.__('On the TPU');
      return (
        <>
          <Field label={trans.__('Direction')}>
            {attributes => (
              <HTMLSelect
                {...attributes}
                value={value.way}
                onChange={event => change({ way: event.target.value })}
              >
                <option value="up">{trans.__('To the TPU')}</option>
                {tpu.hosts.length > 1 && (
                  <option value="all">
                    {trans.__('To all hosts of the TPU')}
                  </option>
                )}
                <option value="down">{trans.__('From the TPU')}</option>
              </HTMLSelect>
            )}
          </Field>
          <TextField
            label={trans.__('File or folder')}
            help={
              down
                ? trans.__(
                    '%1: relative to the home folder, or an absolute path.',
                    there
                  )
                : trans.__('%1: a full path, or with ~/.', here)
            }
            required
            value={value.source}
            onChange={source => change({ source })}
          />
          <TextField
            label={trans.__('Copy to (optional)')}
            help={trans.__(
              '%1. Existing folder: copied into it. Other name: copied under this name. Empty: the home folder.',
              down ? here : there
            )}
            placeholder="~"
            value={value.destination}
            onChange={destination => change({ destination })}
          />
          {value.way !== 'all' && (
            <HostField
              tpu={tpu}
              host={value.host}
              onChange={host => change({ host })}
            />
          )}
        </>
      );
    }
  );
  if (!chosen?.source) {
    return null;
  }
  return {
    sources: [chosen.source],
    destination: chosen.destination,
    download: chosen.way === 'down',
    hosts: chosen.way === 'all' ? 'all' : String(chosen.host)
  };
}

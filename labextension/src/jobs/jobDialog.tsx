// The dialog that asks for the command of a new job.

import { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { ask, TextField } from '../actions/formDialog';
import { IStartJob, ITPU } from '../api';
import { Field } from '../panel/field';

/** Characters of a command that become the job's name. */
const NAME = 60;

/** Asks for a command and where it runs; null if the user does not want it. */
export async function askJob(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IStartJob | null> {
  const names = tpu.environments.map(one => one.name);
  const input = await ask(
    trans.__('New Job on %1', tpu.name),
    trans.__('Start'),
    {
      line: '',
      cwd: '',
      hosts: 'all',
      environment: names.includes('default') ? 'default' : (names[0] ?? ''),
      restart: false
    },
    (value, change) => (
      <>
        <TextField
          label={trans.__('Command')}
          help={trans.__('A command of the shell, such as python train.py')}
          required
          value={value.line}
          onChange={line => change({ line })}
        />
        {tpu.hosts.length > 1 && (
          <TextField
            label={trans.__('Hosts')}
            help={trans.__('all, 0, or 0,2-5')}
            value={value.hosts}
            onChange={hosts => change({ hosts })}
          />
        )}
        <TextField
          label={trans.__('Folder on the hosts (optional)')}
          help={trans.__('Empty: the home folder')}
          value={value.cwd}
          onChange={cwd => change({ cwd })}
        />
        {names.length > 0 && (
          <Field
            label={trans.__('Environment')}
            help={trans.__('Whose Python and programs come first')}
          >
            {attributes => (
              <HTMLSelect
                {...attributes}
                value={value.environment}
                onChange={({ target }) => change({ environment: target.value })}
              >
                {names.map(name => (
                  <option key={name}>{name}</option>
                ))}
                <option value="">{trans.__('None')}</option>
              </HTMLSelect>
            )}
          </Field>
        )}
        <label className="jp-tpu-Check">
          <input
            type="checkbox"
            checked={value.restart}
            onChange={({ target }) => change({ restart: target.checked })}
          />
          {trans.__('Start it again when the TPU was restarted')}
        </label>
      </>
    ),
    trans
  );
  const line = input?.line.trim();
  if (!input || !line) {
    return null;
  }
  return {
    command: ['sh', '-c', line],
    name: line.slice(0, NAME),
    hosts: input.hosts.trim() || 'all',
    cwd: input.cwd.trim(),
    environment: input.environment,
    restart_with_tpu: input.restart
  };
}

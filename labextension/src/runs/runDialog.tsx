// The dialog that asks for a command to run on hosts.

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ask, TextField } from '../actions/formDialog';
import { IStartRun, ITPU } from '../api';

/** Seconds after which the server stops a command whose tab is gone. */
const UNWATCHED = 60;

/** Asks for a command of the shell, its folder, and the hosts where there are several. */
export async function askRun(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IStartRun | null> {
  const input = await ask(
    trans.__('Run a Command on %1', tpu.name),
    trans.__('Run'),
    { command: '', hosts: 'all', cwd: '' },
    (value, change) => (
      <>
        <TextField
          label={trans.__('Command')}
          help={trans.__('A command of the shell, such as pip list | grep jax')}
          required
          value={value.command}
          onChange={command => change({ command })}
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
      </>
    ),
    trans
  );
  if (!input?.command.trim()) {
    return null;
  }
  return {
    command: ['sh', '-c', input.command],
    hosts: input.hosts.trim() || 'all',
    cwd: input.cwd.trim(),
    stop_unwatched: UNWATCHED
  };
}

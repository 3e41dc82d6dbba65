// The fields of a command of the shell: of a run, and of a job.

import React from 'react';

import { ITPU } from '../rest/api';
import { TextField } from './field';
import { trans } from './translation';

export interface ICommandInput {
  line: string;
  hosts: string;
  cwd: string;
}

export const NO_COMMAND: ICommandInput = { line: '', hosts: 'all', cwd: '' };

/** A command, the hosts where there are several, and its folder. */
export function CommandFields(props: {
  help: string;
  tpu: ITPU;
  value: ICommandInput;
  onChange: (more: Partial<ICommandInput>) => void;
}): JSX.Element {
  const { help, onChange, tpu, value } = props;
  return (
    <>
      <TextField
        label={trans.__('Command')}
        help={help}
        required
        value={value.line}
        onChange={line => onChange({ line })}
      />
      {tpu.hosts.length > 1 && (
        <TextField
          label={trans.__('Hosts')}
          help={trans.__('all, 0, or 0,2-5')}
          value={value.hosts}
          onChange={hosts => onChange({ hosts })}
        />
      )}
      <TextField
        label={trans.__('Folder on the hosts (optional)')}
        help={trans.__('Empty: the home folder')}
        value={value.cwd}
        onChange={cwd => onChange({ cwd })}
      />
    </>
  );
}

/** What the server is asked to run. */
export function commandOf({ line, hosts, cwd }: ICommandInput): {
  command: string[];
  hosts: string;
  cwd: string;
} {
  return {
    command: ['sh', '-c', line],
    hosts: hosts.trim() || 'all',
    cwd: cwd.trim()
  };
}

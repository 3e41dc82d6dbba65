// The dialog that asks for a command to run on hosts.

import React from 'react';

import { IStartRun, ITPU } from '../rest/api';
import { CommandFields, commandOf, NO_COMMAND } from '../ui/commandFields';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';

/** Seconds after which the server stops a command whose tab is gone. */
const UNWATCHED = 60;

/** Asks for a command of the shell, its folder, and the hosts where there are several. */
export async function askRun(tpu: ITPU): Promise<IStartRun | null> {
  const input = await ask(
    trans.__('Run a Command on %1', tpu.name),
    trans.__('Run'),
    NO_COMMAND,
    (value, change) => (
      <CommandFields
        help={trans.__('A shell command, such as pip list | grep jax')}
        tpu={tpu}
        value={value}
        onChange={change}
      />
    )
  );
  return input?.line.trim()
    ? { ...commandOf(input), stop_unwatched: UNWATCHED }
    : null;
}

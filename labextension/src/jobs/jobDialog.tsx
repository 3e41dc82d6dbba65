// The dialog that asks for the command of a new job.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { IStartJob, ITPU } from '../rest/api';
import { CommandFields, commandOf, NO_COMMAND } from '../ui/commandFields';
import { Check, Field } from '../ui/field';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';

/** Characters of a command that become the job's name. */
const NAME = 60;

/** Asks for a command and where it runs; null if the user does not want it. */
export async function askJob(tpu: ITPU): Promise<IStartJob | null> {
  const names = tpu.environments.map(one => one.name);
  const input = await ask(
    trans.__('New Job on %1', tpu.name),
    trans.__('Start'),
    {
      ...NO_COMMAND,
      environment: names.includes('default') ? 'default' : (names[0] ?? ''),
      restart: false
    },
    (value, change) => (
      <>
        <CommandFields
          help={trans.__('A shell command, such as python train.py')}
          tpu={tpu}
          value={value}
          onChange={change}
        />
        {names.length > 0 && (
          <Field
            label={trans.__('Environment')}
            help={trans.__(
              'The job uses this environment’s Python and programs'
            )}
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
        <Check
          checked={value.restart}
          label={trans.__('Start it again after the TPU is restarted')}
          onChange={restart => change({ restart })}
        />
      </>
    )
  );
  const line = input?.line.trim();
  if (!input || !line) {
    return null;
  }
  return {
    ...commandOf({ ...input, line }),
    name: line.slice(0, NAME),
    environment: input.environment,
    restart_with_tpu: input.restart
  };
}

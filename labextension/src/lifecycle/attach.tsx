// Attaching machines that are reached by SSH: their host keys are shown before they are trusted.

import React from 'react';

import { confirmHostKeys } from '../actions/dialogs';
import { TPUModel } from '../model/model';
import { IAttachMachine } from '../rest/api';
import { TextField } from '../ui/field';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';
import { wait } from '../ui/wait';

/** Asks for machines and attaches them as one TPU; an error is a notification. */
export async function attachMachine(model: TPUModel): Promise<void> {
  const request = await askMachines();
  if (!request) {
    return;
  }
  const { client } = model;
  const connecting = trans.__('Connecting to %1', request.ssh.join(', '));
  const found = await wait(connecting, signal =>
    client.attached.check(request, signal)
  );
  if (!found) {
    return;
  }
  const unknown = found.hosts.filter(host => !host.known);
  if (unknown.length > 0 && !(await confirmHostKeys(unknown))) {
    return;
  }
  // What was shown is what is trusted.
  const host_keys = found.hosts.map(host => host.host_key);
  const trusted = { ...request, host_keys };
  const tpu = await wait(connecting, signal =>
    client.attached.attach(trusted, signal)
  );
  if (tpu) {
    await model.refresh();
  }
}

async function askMachines(): Promise<IAttachMachine | null> {
  const chosen = await ask(
    trans.__('Attach a machine'),
    trans.__('Attach'),
    { ssh: '', name: '' },
    (value, change) => (
      <>
        <TextField
          label={trans.__('SSH hosts')}
          help={trans.__(
            'An entry of ~/.ssh/config, or USER@HOST. ssh must log in without a password. For several hosts of one TPU: all of them, host 0 first, separated by spaces.'
          )}
          required
          value={value.ssh}
          onChange={ssh => change({ ssh })}
        />
        <TextField
          label={
            several(value.ssh) ? trans.__('Name') : trans.__('Name (optional)')
          }
          required={several(value.ssh)}
          value={value.name}
          onChange={name => change({ name })}
        />
      </>
    )
  );
  const ssh = machines(chosen?.ssh ?? '');
  return ssh.length > 0 ? { ssh, name: chosen?.name.trim() || null } : null;
}

function machines(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function several(text: string): boolean {
  return machines(text).length > 1;
}

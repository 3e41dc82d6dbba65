// Attaching a machine that is reached by SSH: its host key is shown before it is trusted.

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { IAttachMachine } from '../api';
import { TPUModel } from '../model/model';
import { confirmHostKey } from './dialogs';
import { ask, TextField } from './formDialog';
import { wait } from './wait';

/** Asks for a machine and attaches it; an error is a notification. */
export async function attachMachine(
  model: TPUModel,
  trans: TranslationBundle
): Promise<void> {
  const request = await askMachine(trans);
  if (!request) {
    return;
  }
  const { client } = model;
  const connecting = trans.__('Connecting to %1', request.ssh);
  const found = await wait(
    connecting,
    signal => client.checkMachine(request, signal),
    trans
  );
  if (!found || (!found.known && !(await confirmHostKey(found, trans)))) {
    return;
  }
  // What was shown is what is trusted.
  const trusted = { ...request, host_key: found.host_key };
  const tpu = await wait(
    connecting,
    signal => client.attach(trusted, signal),
    trans
  );
  if (tpu) {
    await model.refresh();
  }
}

async function askMachine(
  trans: TranslationBundle
): Promise<IAttachMachine | null> {
  const chosen = await ask(
    trans.__('Attach a machine'),
    trans.__('Attach'),
    { ssh: '', name: '' },
    (value, change) => (
      <>
        <TextField
          label={trans.__('SSH host')}
          help={trans.__(
            'What you give to ssh: an entry of ~/.ssh/config, or USER@HOST. It must work without a password.'
          )}
          required
          value={value.ssh}
          onChange={ssh => change({ ssh })}
        />
        <TextField
          label={trans.__('Name (optional)')}
          value={value.name}
          onChange={name => change({ name })}
        />
      </>
    ),
    trans
  );
  const ssh = chosen?.ssh.trim();
  return ssh ? { ssh, name: chosen?.name.trim() || null } : null;
}

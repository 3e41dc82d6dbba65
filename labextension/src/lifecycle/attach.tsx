// Attaching machines that are reached by SSH: their host keys are shown before they are trusted.

import React from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IMachineHost } from '../rest/api';
import { confirm } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { OPTIONAL, WORDS } from '../ui/typed';
import { wait } from '../ui/wait';

/** Asks for machines and attaches them as one TPU; an error is a notification. */
export async function attachMachine(model: TPUModel): Promise<void> {
  const { client } = model;
  let hosts: IMachineHost[] = [];
  const input = await ask({
    title: trans.__('Attach a Machine'),
    accept: trans.__('Attach'),
    initial: { ssh: [] as string[], name: null as string | null },
    fields: ({ ssh }) => [
      {
        name: 'ssh',
        label: trans.__('SSH hosts'),
        help: trans.__(
          'An entry of ~/.ssh/config, or USER@HOST. ssh must log in without a password. For several hosts of one TPU: all of them, host 0 first, separated by spaces.'
        ),
        typed: WORDS,
        required: true
      },
      {
        name: 'name',
        label: ssh.length > 1 ? trans.__('Name') : trans.__('Name (optional)'),
        typed: OPTIONAL,
        required: ssh.length > 1
      }
    ],
    // What can't be reached is said in the dialog.
    submit: async value => {
      ({ hosts } = await client.attached.check(value));
    }
  });
  const unknown = hosts.filter(host => !host.known);
  if (!input || (unknown.length > 0 && !(await confirmHostKeys(unknown)))) {
    return;
  }
  // What was shown is what is trusted.
  const host_keys = hosts.map(host => host.host_key);
  const request = { ...input, host_keys };
  const tpu = await wait(
    trans.__('Connecting to %1', request.ssh.join(', ')),
    signal => client.attached.attach(request, signal)
  );
  if (tpu) {
    await model.refresh();
  }
}

/** Asks whether host keys that the known hosts do not have are those of the machines. */
async function confirmHostKeys(
  machines: readonly IMachineHost[]
): Promise<boolean> {
  return confirm(
    trans._n(
      'Is this the host key of %2?',
      'Are these the host keys of %1 machines?',
      machines.length,
      machines[0].ssh
    ),
    <>
      <p>
        {trans._n(
          'This machine is not in your known hosts. Compare the fingerprint with the output of ssh-keygen -lf on the machine:',
          'These machines are not in your known hosts. Compare each fingerprint with the output of ssh-keygen -lf on the machine:',
          machines.length
        )}
      </p>
      {machines.map(({ address, host_key, port, ssh, user }) => (
        <p key={ssh}>
          {`${ssh} (${user}@${address}:${port})`}
          <br />
          <code>{host_key}</code>
        </p>
      ))}
    </>,
    trans.__('Trust and Attach')
  );
}

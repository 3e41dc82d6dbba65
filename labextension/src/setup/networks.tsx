// What a network lacks so that TPUs in it can be reached: shown first, then done.

import React from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { INetworkSetup, ISetUpNetwork } from '../rest/api';
import { confirm, show } from '../ui/confirm';
import { Findings } from '../ui/elements';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';
import { WORDS } from '../ui/typed';
import { wait, waitToEnd } from '../ui/wait';

/** Asks whom to let in, shows what a network lacks, and creates that if the user agrees. */
export async function setUpNetwork(
  request: ISetUpNetwork,
  model: TPUModel
): Promise<void> {
  const asked = await ask({
    title: trans.__('Who may use SSH?'),
    accept: trans.__('Continue'),
    initial: { sources: [] as string[] },
    fields: () => [
      {
        name: 'sources',
        label: trans.__(
          'The public IPv4 address of the computer that runs Jupyter, or a range. Empty: detected through a connected TPU.'
        ),
        typed: WORDS,
        placeholder: '203.0.113.4'
      }
    ]
  });
  if (!asked) {
    return;
  }
  const plan = await wait(trans.__('Checking the network.'), signal =>
    model.client.networks.setUp({ ...request, ...asked, dry_run: true }, signal)
  );
  if (!plan) {
    return;
  }
  if (plan.changes.length === 0) {
    await show(trans.__('The Network %1', plan.network), <Plan plan={plan} />);
    return;
  }
  const agreed = await confirm(
    trans.__('Set Up the Network %1', plan.network),
    <Plan plan={plan} />,
    trans.__('Set Up'),
    { harmless: true }
  );
  if (!agreed) {
    return;
  }
  const { sources } = plan; // what was shown, whatever the address is now
  const done = await waitToEnd(
    trans.__('Setting up the network. This can take a minute.'),
    model.client.networks.setUp({ ...request, sources, dry_run: false })
  );
  if (done) {
    const { blocked, network } = done;
    notify.success(
      blocked.length > 0
        ? trans.__('%1 is set up, except: %2', network, blocked.join(' '))
        : trans.__('%1 is set up.', network)
    );
  }
}

function Plan({ plan }: { plan: INetworkSetup }) {
  const rows = [
    ...plan.blocked.map(text => ['problem', trans.__('Problem'), text]),
    ...plan.changes.map(text => ['change', trans.__('Change'), text]),
    ...plan.warnings.map(text => ['warning', trans.__('Warning'), text]),
    ...plan.found.map(text => ['ok', trans.__('OK'), text])
  ];
  return (
    <Findings
      findings={rows.map(([state, label, text]) => ({
        key: text,
        state,
        label,
        children: text
      }))}
    />
  );
}

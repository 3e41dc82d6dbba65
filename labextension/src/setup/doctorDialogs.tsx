// The checks: what keeps JAX from a TPU's chips, or a TPU from being created, and what to do.

import { Dialog } from '@jupyterlab/apputils';
import React from 'react';

import { freeChips } from '../chips/chipDialogs';
import { hostNumbers } from '../language/hostRanges';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { ICheckSetup, IFinding, ITPU } from '../rest/api';
import { show } from '../ui/confirm';
import { Findings } from '../ui/elements';
import { wait } from '../ui/wait';
import { findingGroups, findingStateLabel } from './doctorLabels';
import { setUpNetwork } from './networks';
import { addSSHKey } from './sshKey';

/** Checks the hosts of a TPU, which takes seconds, and shows what was found. */
export async function checkTPU(tpu: ITPU, model: TPUModel): Promise<void> {
  const diagnosis = await wait(
    trans.__('Checking %1. This can take a minute.', tpu.name),
    signal => model.client.doctor.check(tpu, signal)
  );
  if (!diagnosis) {
    return;
  }
  const held = diagnosis.findings.some(
    ({ check, state }) =>
      (check === 'holders' || check === 'lock') && state === 'problem'
  );
  const { displayType } = await show(
    diagnosis.healthy
      ? trans.__('%1: no problem found', tpu.name)
      : trans.__('%1 has problems', tpu.name),
    <Found findings={diagnosis.findings} />,
    held ? [Dialog.warnButton({ label: trans.__('Free Chips…') })] : []
  );
  if (displayType === 'warn') {
    await freeChips(tpu, model);
  }
}

/** Checks what can keep a TPU from being created, such as this one, and shows what was found. */
export async function checkSetup(
  model: TPUModel,
  { network, tier, type, version, zone }: ICheckSetup = {}
): Promise<void> {
  const request = { network, tier, type, version, zone };
  const diagnosis = await wait(
    trans.__('Checking the project. This can take a minute.'),
    signal => model.client.doctor.preflight(request, signal)
  );
  if (!diagnosis) {
    return;
  }
  const closed = diagnosis.findings.some(
    ({ check, state }) =>
      check === 'firewall' && (state === 'problem' || state === 'warning')
  );
  const rejected = diagnosis.findings.some(
    ({ check, state }) => check === 'os-login' && state === 'warning'
  );
  const setUp = Dialog.createButton({ label: trans.__('Set Up Network…') });
  const addKey = Dialog.createButton({ label: trans.__('Add SSH Key…') });
  const mending = [...(closed ? [setUp] : []), ...(rejected ? [addKey] : [])];
  const { label } = await show(
    diagnosis.healthy
      ? trans.__('No problem found')
      : trans.__('There are problems'),
    <Found findings={diagnosis.findings} />,
    mending
  );
  if (label === setUp.label) {
    await setUpNetwork({ network: network ?? 'default', zone }, model);
  } else if (label === addKey.label) {
    await addSSHKey(model);
  }
}

function Found({ findings }: { findings: IFinding[] }) {
  const many = findings.some(({ host }) => (host ?? 0) > 0);
  return (
    <Findings
      findings={findingGroups(findings).map(({ finding, hosts }) => ({
        key: `${hosts[0] ?? ''} ${finding.check} ${finding.message}`,
        state: finding.state,
        label: findingStateLabel(finding.state),
        children: (
          <>
            {many && hosts.length > 0 && <em>{hostNumbers(hosts)} </em>}
            {finding.message}
            {finding.hint && <p>{finding.hint}</p>}
          </>
        )
      }))}
    />
  );
}

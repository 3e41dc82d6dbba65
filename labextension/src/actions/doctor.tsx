// The checks: what keeps JAX from a TPU's chips, or a TPU from being created, and what to do.

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ICheckSetup, IDiagnosis, IFinding, ITPU } from '../api';
import { failureText } from '../labels/failures';
import {
  findingGroups,
  findingStateLabel,
  hostNumbers
} from '../labels/doctor';
import { Failure } from '../model/client';
import { TPUModel } from '../model/model';
import { freeChips } from './chips';

/** Checks the hosts of a TPU, which takes seconds, and shows what was found. */
export async function checkTPU(
  tpu: ITPU,
  model: TPUModel,
  trans: TranslationBundle
): Promise<void> {
  const found = await check(
    trans.__('Checking %1. This can take a minute.', tpu.name),
    signal => model.client.check(tpu, signal),
    trans
  );
  if (!found) {
    return;
  }
  const held = found.findings.some(
    ({ check, state }) => check === 'holders' && state === 'problem'
  );
  const { button } = await showDialog({
    title: found.healthy
      ? trans.__('%1: No Problem Found', tpu.name)
      : trans.__('%1 Has Problems', tpu.name),
    body: <Findings findings={found.findings} trans={trans} />,
    buttons: [
      ...(held ? [Dialog.warnButton({ label: trans.__('Free Chips…') })] : []),
      Dialog.okButton({ label: trans.__('Close') })
    ],
    defaultButton: held ? 1 : 0
  });
  if (held && button.displayType === 'warn' && button.accept) {
    await freeChips(tpu, model, trans);
  }
}

/** Checks what can keep a TPU from being created, and shows what was found. */
export async function checkSetup(
  request: ICheckSetup,
  model: TPUModel,
  trans: TranslationBundle
): Promise<void> {
  const found = await check(
    trans.__('Checking the project. This can take a minute.'),
    signal => model.client.checkSetup(request, signal),
    trans
  );
  if (found) {
    await showDialog({
      title: found.healthy
        ? trans.__('No Problem Found')
        : trans.__('There Are Problems'),
      body: <Findings findings={found.findings} trans={trans} />,
      buttons: [Dialog.okButton({ label: trans.__('Close') })]
    });
  }
}

/** Asks for a diagnosis, which can be cancelled; null where there is none. */
async function check(
  message: string,
  ask: (signal: AbortSignal) => Promise<IDiagnosis>,
  trans: TranslationBundle
): Promise<IDiagnosis | null> {
  const aborter = new AbortController();
  const id = Notification.emit(message, 'in-progress', {
    autoClose: false,
    actions: [{ label: trans.__('Cancel'), callback: () => aborter.abort() }]
  });
  try {
    return await ask(aborter.signal);
  } catch (error) {
    if (!aborter.signal.aborted) {
      const { message, hint } = failureText(Failure.from(error), trans);
      Notification.error(`${message} ${hint}`.trim(), { autoClose: false });
    }
    return null;
  } finally {
    Notification.dismiss(id);
  }
}

function Findings(props: {
  findings: IFinding[];
  trans: TranslationBundle;
}): JSX.Element {
  const { findings, trans } = props;
  const many = findings.some(({ host }) => (host ?? 0) > 0);
  return (
    <div className="jp-tpu-Dialog">
      <ul className="jp-tpu-Findings">
        {findingGroups(findings).map(({ finding, hosts }) => (
          <li
            key={`${hosts[0] ?? ''} ${finding.check} ${finding.message}`}
            data-state={finding.state}
          >
            <strong>{findingStateLabel(finding.state, trans)}</strong>
            <span>
              {many && <em>{hostNumbers(hosts, trans)} </em>}
              {finding.message}
              {finding.hint && <p>{finding.hint}</p>}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

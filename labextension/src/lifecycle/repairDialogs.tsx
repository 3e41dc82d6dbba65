// What is asked before a TPU is replaced, or a host of it reported to Google.

import React from 'react';

import { Loss } from '../kernels/kernelDialogs';
import { lossOf, mayEnd } from '../kernels/lossLabels';
import { ISaves, SaveChoice } from '../kernels/saveChoice';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IReportFault, ITPU } from '../rest/api';
import { confirmed } from '../rest/tpuRef';
import { confirm } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { named } from '../ui/named';
import { wait, waitIfSlow } from '../ui/wait';

/** Replaces a TPU by the same one on other hardware; asks first, with what is lost. */
export async function replaceTPU(tpu: ITPU, model: TPUModel): Promise<void> {
  const plan = await wait(
    trans.__('Checking %1. This can take a minute.', tpu.name),
    signal => model.client.hunts.replacement(tpu, signal)
  );
  if (!plan) {
    return;
  }
  const saves: ISaves = {};
  const agreed = await confirm(
    trans.__('Replace %1?', tpu.name),
    <>
      <p>
        {trans.__(
          'The TPU is deleted, and the same one is created again on other hardware. If there is no capacity, that is tried until there is, or until you stop it.'
        )}
      </p>
      <ul>
        {plan.restored.map(sentence => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      <Loss loss={plan} />
      <SaveChoice act="replace" loss={plan} saves={saves} />
      {plan.question && <p>{plan.question}</p>}
    </>,
    trans.__('Replace')
  );
  if (agreed) {
    await model.send(tpu, async client => {
      const hunt = await client.hunts.replace(tpu, {
        ...mayEnd({ ...plan, known: true }),
        ...saves,
        confirm_price: !!plan.question,
        max_price: plan.cost.usd_per_hour
      });
      model.hunts.set(hunt.id, hunt);
      return client.operations.get(hunt.id);
    });
  }
}

/** Tells Google that a host is broken; asks which, and what is wrong. */
export async function reportFault(tpu: ITPU, model: TPUModel): Promise<void> {
  const faults: [IReportFault['fault'] & string, string][] = [
    ['chip-error', trans.__('Errors of its chips')],
    ['slow', trans.__('It is slow')],
    ['wrong-results', trans.__('Wrong results')]
  ];
  const loss = await waitIfSlow(
    trans.__('Checking what runs on %1', tpu.name),
    lossOf(model.client, 'report-fault', tpu)
  );
  const title = trans.__('Report a host of %1 to Google?', tpu.name);
  const input = await ask({
    title,
    accept: trans.__('Report'),
    initial: { host: 0, fault: faults[0][0], about: '' },
    fields: () => [
      {
        name: 'host',
        label: trans.__('Host'),
        kind: 'select',
        choices: tpu.hosts.map(({ index }) => [index, String(index)])
      },
      {
        name: 'fault',
        label: trans.__('What is wrong'),
        kind: 'select',
        choices: faults
      },
      { name: 'about', label: trans.__('What you have seen, for Google') },
      <Loss loss={loss} />
    ]
  });
  if (!input) {
    return;
  }
  await named(tpu, title, trans.__('Report'), name =>
    model.send(tpu, client =>
      client.reportFault(tpu, {
        ...input,
        ...mayEnd(loss),
        ...confirmed(name)
      })
    )
  );
}

// Whether Cloud Logging stores what the hosts of a TPU log: shown first with its price, then changed.

import React from 'react';

import { trans, usd } from '../language/translation';
import { TPUModel } from '../model/model';
import { ITPU, ITPULogging } from '../rest/api';
import { confirm } from '../ui/confirm';
import { notify } from '../ui/notify';
import { wait, waitToEnd } from '../ui/wait';

/** Shows whether the logs of a TPU are stored, and changes that if the user agrees. */
export async function chooseLogging(tpu: ITPU, model: TPUModel): Promise<void> {
  const now = await wait(
    trans.__('Asking Google whether the logs of %1 are stored', tpu.name),
    signal => model.client.logs.show(tpu, signal)
  );
  const agreed =
    now &&
    (await confirm(
      trans.__('Cloud Logging of %1', tpu.name),
      <Logging now={now} />,
      now.enabled ? trans.__('Stop Storing Logs') : trans.__('Store Logs'),
      { cancel: trans.__('Close'), harmless: !now.enabled }
    ));
  if (!agreed) {
    return;
  }
  const changed = await waitToEnd(
    now.enabled
      ? trans.__('Asking Google to stop storing the logs of %1', tpu.name)
      : trans.__('Asking Google to store the logs of %1', tpu.name),
    model.client.logs.set(tpu, { enabled: !now.enabled })
  );
  if (changed) {
    notify.success(stateOf(changed));
  }
}

function stateOf({ enabled, tpu }: ITPULogging): string {
  return enabled
    ? trans.__('Cloud Logging stores the logs of %1.', tpu)
    : trans.__('Cloud Logging does not store the logs of %1.', tpu);
}

function Logging({ now }: { now: ITPULogging }) {
  return (
    <>
      <p>
        {stateOf(now)}
        {now.emulated &&
          ` ${trans.__('Hosts of an emulated TPU send no logs.')}`}
      </p>
      <p>
        {trans.__(
          'Each month, the first %1 GiB of a project are free. More costs %2 per GiB (price as of %3).',
          now.free_gib,
          usd(now.usd_per_gib),
          now.price_date
        )}
      </p>
      {now.enabled ? (
        <>
          <p>
            {trans.__(
              'Logs that are not stored can’t be read later, not even by Google’s support. Logs that are already stored are kept.'
            )}
          </p>
          <p>
            {trans.__('To find them in Cloud Logging:')}{' '}
            <code>{now.filter}</code>
          </p>
        </>
      ) : (
        <p>
          {trans.__(
            'An exclusion in the project %1 discards the logs.',
            now.project
          )}
        </p>
      )}
    </>
  );
}

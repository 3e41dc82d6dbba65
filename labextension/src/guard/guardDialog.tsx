// The dialog that sets, changes and removes the guard of a TPU.

import { Notification } from '@jupyterlab/apputils';
import React from 'react';

import { askName } from '../actions/dialogs';
import { whyNotStoppable } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IGuard, ITPU } from '../rest/api';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';
import { SUCCESS_TIMEOUT, waitToEnd } from '../ui/wait';
import { GuardFields } from './guardFields';
import { guardFields, guardOf, IGuardFields } from './guardForm';
import { guardLabel } from './guardLabels';

/** Asks when a TPU stops or deletes itself, beginning with what its host says of that now. */
export async function changeGuard(tpu: ITPU, model: TPUModel): Promise<void> {
  const asked = await waitToEnd(
    trans.__('Asking %1 whether it has a guard', tpu.name),
    model.client.findGuard(tpu).then(guard => ({ guard }))
  );
  if (!asked) {
    return;
  }
  const { guard } = asked;
  const deletes = whyNotStoppable(tpu) !== null;
  const title = deletes
    ? trans.__('When should %1 delete itself?', tpu.name)
    : trans.__('When should %1 stop itself?', tpu.name);
  const input = await ask(
    title,
    trans.__('Save'),
    guardFields(guard),
    (fields, change) => (
      <>
        <GuardFields
          form={{
            fields,
            set: (field, value) =>
              change({ [field]: value } as Partial<IGuardFields>),
            problemOf: () => ''
          }}
          deletes={deletes}
        />
        <p>
          {deletes
            ? trans.__(
                'Without a limit, it runs until you delete it. With a limit, it is deleted even while this computer is off.'
              )
            : trans.__(
                'Without a limit, it runs until you stop it. With a limit, it stops even while this computer is off.'
              )}
        </p>
      </>
    )
  );
  const wanted = input && guardOf(input, deletes, guard?.notice);
  if (!input || (!wanted && !guard)) {
    return;
  }
  const name = await askName(tpu, title, trans.__('Save'));
  if (name === null) {
    return;
  }
  const confirmed = name ? { confirm_name: name } : {};
  if (wanted) {
    const found = await waitToEnd(
      trans.__('Setting the guard of %1', tpu.name),
      model.client.guards.set(tpu, { ...wanted, ...confirmed })
    );
    if (found) {
      announce(tpu, found);
    }
  } else {
    const removed = await waitToEnd(
      trans.__('Removing the guard of %1', tpu.name),
      model.client.guards.remove(tpu, confirmed).then(() => true)
    );
    if (removed) {
      const text = deletes
        ? trans.__('%1 runs until you delete it.', tpu.name)
        : trans.__('%1 runs until you stop it.', tpu.name);
      Notification.success(text, { autoClose: SUCCESS_TIMEOUT });
    }
  }
}

function announce(tpu: ITPU, guard: IGuard): void {
  const label = guardLabel(guard);
  if (guard.problem) {
    const { message, hint } = guard.problem;
    const text = trans.__(
      '%1: %2. The TPU can’t stop or delete itself. %3 %4',
      tpu.name,
      label,
      message,
      hint
    );
    Notification.warning(text, { autoClose: false });
  } else {
    Notification.success(trans.__('%1: %2.', tpu.name, label), {
      autoClose: SUCCESS_TIMEOUT
    });
  }
}

// The dialog that sets, changes and removes the guard of a TPU.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { whyNotStoppable } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IGuard, ITPU } from '../rest/api';
import { confirmed } from '../rest/tpuRef';
import {
  ISessionFields,
  requirePlace,
  sessionFieldList,
  sessionFieldsOf
} from '../sessions/sessionForm';
import { keepSetting } from '../sessions/setting';
import { attempt } from '../ui/attempt';
import { ask } from '../ui/formDialog';
import { named } from '../ui/named';
import { notify } from '../ui/notify';
import { waitToEnd } from '../ui/wait';
import { guardFieldList, guardOf, NO_LIMITS } from './guardForm';
import { guardLabel, ILimits } from './guardLabels';

type IGuardFields = ILimits & ISessionFields;

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
  const lost = ({ action }: ILimits) => deletes || action === 'delete';
  const save = async (input: IGuardFields, name = '') => {
    const limits = guardOf(input, deletes);
    if (limits) {
      // Before the guard, which may end the TPU soon.
      await keepSetting(model.client, tpu, input, name);
    }
    if (limits) {
      const request = { ...limits, notice: guard?.notice, ...confirmed(name) };
      announce(tpu, await model.client.guards.set(tpu, request));
    } else if (guard) {
      await model.client.guards.remove(tpu, confirmed(name));
      const text = deletes
        ? trans.__('%1 runs until you delete it.', tpu.name)
        : trans.__('%1 runs until you stop it.', tpu.name);
      notify.success(text);
    }
  };
  const input = await ask<IGuardFields>({
    title,
    accept: trans.__('Save'),
    initial: { ...(guard ?? NO_LIMITS), ...sessionFieldsOf(tpu.sessions) },
    fields: fields => [
      ...guardFieldList(fields, deletes),
      ...(guardOf(fields, deletes)
        ? sessionFieldList(fields, lost(fields))
        : []),
      <p>
        {deletes
          ? trans.__(
              'Without a limit, it runs until you delete it. With a limit, it is deleted even while this computer is off.'
            )
          : trans.__(
              'Without a limit, it runs until you stop it. With a limit, it stops even while this computer is off.'
            )}
      </p>
    ],
    // The name of another person’s TPU is asked for first.
    submit: async input => {
      if (guardOf(input, deletes) && input.sessions) {
        requirePlace(input, lost(input));
      }
      if (!tpu.not_yours) {
        await save(input);
      }
    }
  });
  if (input && tpu.not_yours && (guardOf(input, deletes) || guard)) {
    await named(tpu, title, trans.__('Save'), name =>
      attempt(save(input, name))
    );
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
    notify.warning(text);
  } else {
    notify.success(trans.__('%1: %2.', tpu.name, label));
  }
}

/** Keeps a TPU for an hour that would stop itself. */
export async function keep({ model }: IPanelActions, tpu: ITPU): Promise<void> {
  const title = trans.__('Keep %1 for an hour?', tpu.name);
  await named(tpu, title, trans.__('Keep'), name =>
    model.send(tpu, async client => {
      await client.guards.keep(tpu, confirmed(name));
    })
  );
}

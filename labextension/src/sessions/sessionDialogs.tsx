// What is asked before variables are saved, restored or deleted.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { kernelName, kernelStateLabel } from '../kernels/kernelLabels';
import { clock, trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { ISession, ISetSessions, ITPU } from '../rest/api';
import { confirmed } from '../rest/tpuRef';
import { attempt } from '../ui/attempt';
import { confirm, show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { named } from '../ui/named';
import { NUMBER } from '../ui/typed';
import { waitToEnd } from '../ui/wait';
import { BUCKETS, BucketOffer } from './bucketOffer';
import { COMPUTER, placeField, requirePlace } from './sessionForm';
import { placeLabel } from './sessionLabels';

type When = 'off' | 'idle' | 'end';

interface ISettingFields {
  when: When;
  place: string;
  max_gb: number | null;
  seconds: number | null;
  keep_days: number | null;
}

/** The server's own. */
const DEFAULTS = { place: '', max_gb: 2, seconds: 5, keep_days: 30 };

/** Chooses when and where the kernels of a TPU are saved, or that they are not. */
export async function changeSetting(tpu: ITPU, model: TPUModel): Promise<void> {
  const { sessions: setting } = tpu;
  const save = async (fields: ISettingFields, name = '') => {
    if (fields.when === 'off') {
      await model.client.sessions.remove(tpu);
    } else {
      requirePlace(fields);
      const request = { ...requestOf(fields), ...confirmed(name) };
      await model.client.sessions.set(tpu, request);
    }
  };
  const title = trans.__('When are variables on %1 saved?', tpu.name);
  const when: When = !setting ? 'off' : setting.automatic ? 'idle' : 'end';
  const input = await ask<ISettingFields>({
    title,
    accept: trans.__('Save'),
    initial: { ...DEFAULTS, ...setting, when: setting ? when : 'idle' },
    fields: fields => [
      {
        name: 'when',
        label: trans.__('Variables of notebooks are saved'),
        kind: 'radio',
        choices: [
          [
            'idle',
            trans.__('Automatically'),
            trans.__(
              'When no cell has run for some seconds, and before the TPU is stopped, deleted or preempted'
            )
          ],
          ['end', trans.__('Before the TPU is stopped or deleted')],
          ['off', trans.__('Only when I ask for it')]
        ]
      },
      ...(fields.when === 'off'
        ? []
        : [
            ...placeField(fields, false, BUCKETS),
            <BucketOffer
              key="buckets"
              tpu={tpu}
              model={model}
              place={fields.place}
            />,
            fields.place === COMPUTER && {
              name: 'max_gb' as const,
              label: trans.__('Largest session to copy, in GB'),
              kind: 'number' as const,
              typed: NUMBER,
              min: 0.1,
              step: 0.1,
              max: 10_000,
              required: true
            },
            fields.when === 'idle' && {
              name: 'seconds' as const,
              label: trans.__('Seconds without a cell'),
              kind: 'number' as const,
              typed: NUMBER,
              min: 1,
              max: 3600,
              required: true
            },
            {
              name: 'keep_days' as const,
              label: trans.__('Days to keep what is not saved again'),
              kind: 'number' as const,
              typed: NUMBER,
              min: 1,
              max: 3650,
              required: true
            }
          ])
    ],
    // The name of another person’s TPU is asked for first.
    submit: tpu.not_yours ? undefined : save
  });
  if (input && tpu.not_yours) {
    await named(tpu, title, trans.__('Save'), name =>
      attempt(save(input, name))
    );
  }
}

function requestOf(fields: ISettingFields): ISetSessions {
  return {
    automatic: fields.when === 'idle',
    place: fields.place,
    max_gb: fields.max_gb ?? DEFAULTS.max_gb,
    seconds: fields.seconds ?? DEFAULTS.seconds,
    keep_days: fields.keep_days ?? DEFAULTS.keep_days
  };
}

/** Asks for a kernel, and puts the session into it. */
export async function restoreInto(
  session: ISession,
  tpu: ITPU,
  actions: IPanelActions
): Promise<void> {
  const { model } = actions;
  const alive = (await actions.kernels.load(tpu)) ?? model.kernels(tpu);
  const kernels = alive.filter(
    ({ host, state }) =>
      state !== 'dead' && (session.place || host === session.host)
  );
  const title = trans.__('Restore %1', session.name);
  if (kernels.length === 0) {
    await show(
      title,
      trans.__(
        'No kernel runs on %1. Open a notebook with a kernel of %1 first.',
        tpu.name
      )
    );
    return;
  }
  await ask({
    title,
    accept: trans.__('Restore'),
    initial: { kernel: kernels[0].id, overwrite: false },
    fields: () => [
      {
        name: 'kernel',
        label: trans.__('Into the kernel'),
        kind: 'select',
        choices: kernels.map(kernel => [
          kernel.id,
          `${kernelName(kernel)} (${kernelStateLabel(kernel.state)})`
        ])
      },
      {
        name: 'overwrite',
        label: trans.__('Replace variables of the same names'),
        help: trans.__('Otherwise nothing is restored if there are any'),
        kind: 'check'
      }
    ],
    submit: request =>
      model.begin(() => model.client.sessions.restore(tpu, session.id, request))
  });
}

/** Saves all kernels of a TPU now. */
export async function saveNow(tpu: ITPU, model: TPUModel): Promise<void> {
  await model.send(tpu, client => client.sessions.save(tpu));
}

/** Deletes a session; asks first, and says what is lost. */
export async function forget(
  session: ISession,
  tpu: ITPU,
  model: TPUModel
): Promise<void> {
  const { name, saved, variables } = session;
  const agreed = await confirm(
    trans.__('Forget %1?', name),
    trans.__(
      'Its %1 variables, saved %2, are deleted from: %3. This can’t be undone. A kernel that is saved automatically is saved again.',
      variables,
      clock(saved),
      placeLabel(session)
    ),
    trans.__('Forget')
  );
  if (agreed) {
    await waitToEnd(
      trans.__('Deleting %1', name),
      model.client.sessions.forget(tpu, session.id)
    );
  }
}

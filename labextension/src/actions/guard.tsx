// The dialog that sets, changes and removes the guard of a TPU.

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { IGuard, ISetGuard, ITPU } from '../api';
import { durationLabel, guardLabel, IDLE_CHOICES } from '../labels/guard';
import { whyNotStoppable } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { Field } from '../panel/field';
import { askName } from './dialogs';
import { ask, TextField } from './formDialog';
import { SUCCESS_TIMEOUT, waitToEnd } from './wait';

/** What is typed: seconds, USD, and a time of this computer; "" for no limit. */
interface IGuardInput {
  idle: string;
  cost: string;
  until: string;
  action: 'delete' | 'stop';
}

/** Asks when a TPU stops or deletes itself, beginning with what its host says of that now. */
export async function changeGuard(
  tpu: ITPU,
  model: TPUModel,
  language: string,
  trans: TranslationBundle
): Promise<void> {
  const asked = await waitToEnd(
    trans.__('Asking %1 whether it has a guard', tpu.name),
    model.client.guard(tpu).then(guard => ({ guard })),
    trans
  );
  if (!asked) {
    return;
  }
  const { guard } = asked;
  const deletes = whyNotStoppable(tpu) !== null;
  const title = deletes
    ? trans.__('When does %1 delete itself?', tpu.name)
    : trans.__('When does %1 stop by itself?', tpu.name);
  const input = await ask(
    title,
    trans.__('Save'),
    inputOf(guard, tpu),
    (value, change) => (
      <Fields deletes={deletes} value={value} trans={trans} onChange={change} />
    ),
    trans
  );
  const wanted = input && requestOf(input, guard);
  if (!input || (!wanted && !guard)) {
    return;
  }
  const name = await askName(tpu, title, trans.__('Save'), trans);
  if (name === null) {
    return;
  }
  const confirmed = name ? { confirm_name: name } : {};
  if (wanted) {
    const found = await waitToEnd(
      trans.__('Asking Google whether %1 may do that', tpu.name),
      model.client.setGuard(tpu, { ...wanted, ...confirmed }),
      trans
    );
    if (found) {
      announce(tpu, found, language, trans);
    }
  } else {
    const removed = await waitToEnd(
      trans.__('Removing the guard of %1', tpu.name),
      model.client.removeGuard(tpu, confirmed).then(() => true),
      trans
    );
    if (removed) {
      const text = deletes
        ? trans.__('%1 runs until you delete it.', tpu.name)
        : trans.__('%1 runs until you stop it.', tpu.name);
      Notification.success(text, { autoClose: SUCCESS_TIMEOUT });
    }
  }
}

function announce(
  tpu: ITPU,
  guard: IGuard,
  language: string,
  trans: TranslationBundle
): void {
  const text = `${tpu.name}: ${guardLabel(guard, trans, language)}.`;
  if (guard.problem) {
    const { message, hint } = guard.problem;
    const why = trans.__('The TPU can’t do it by itself. %1 %2', message, hint);
    Notification.warning(`${text} ${why}`, { autoClose: false });
  } else {
    Notification.success(text, { autoClose: SUCCESS_TIMEOUT });
  }
}

function inputOf(guard: IGuard | null, tpu: ITPU): IGuardInput {
  return {
    idle: String(guard?.idle ?? ''),
    cost: String(guard?.max_cost ?? ''),
    until: guard?.until ? localTime(guard.until) : '',
    action: whyNotStoppable(tpu) ? 'delete' : (guard?.action ?? 'stop')
  };
}

/** The limits as the server wants them; null without any. */
function requestOf(
  { idle, cost, until, action }: IGuardInput,
  before: IGuard | null
): ISetGuard | null {
  if (!idle && !cost && !until) {
    return null;
  }
  return {
    action,
    idle: idle ? Number(idle) : null,
    max_cost: cost ? Number(cost) : null,
    until: until ? new Date(until).toISOString() : '',
    ...(before ? { notice: before.notice } : {})
  };
}

/** A time as a field for dates and times has it. */
function localTime(time: string): string {
  const date = new Date(time);
  const local = date.getTime() - date.getTimezoneOffset() * 60_000;
  return new Date(local).toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length);
}

function Fields(props: {
  deletes: boolean;
  value: IGuardInput;
  trans: TranslationBundle;
  onChange: (more: Partial<IGuardInput>) => void;
}): JSX.Element {
  const { deletes, onChange, trans, value } = props;
  const choices = [...new Set([...IDLE_CHOICES, Number(value.idle)])]
    .filter(seconds => seconds > 0)
    .sort((a, b) => a - b);
  return (
    <>
      <Field
        label={trans.__('When it is idle')}
        help={trans.__('No running cell, job, terminal or program.')}
      >
        {attributes => (
          <HTMLSelect
            {...attributes}
            value={value.idle}
            onChange={event => onChange({ idle: event.target.value })}
          >
            <option value="">{trans.__('Keep it running')}</option>
            {choices.map(seconds => (
              <option key={seconds} value={seconds}>
                {trans.__('After %1', durationLabel(seconds, trans))}
              </option>
            ))}
          </HTMLSelect>
        )}
      </Field>
      <TextField
        label={trans.__('When it has cost so much in US dollars')}
        help={trans.__('About, since its creation. Empty: no limit.')}
        type="number"
        min="0.01"
        step="0.01"
        value={value.cost}
        onChange={cost => onChange({ cost })}
      />
      <TextField
        label={trans.__('At a time')}
        help={trans.__('By the clock of this computer. Empty: no limit.')}
        type="datetime-local"
        value={value.until}
        onChange={until => onChange({ until })}
      />
      <Field
        label={trans.__('What happens then')}
        help={
          deletes
            ? trans.__('This TPU can’t be stopped.')
            : trans.__('A TPU that is stopped keeps its disk.')
        }
      >
        {attributes => (
          <HTMLSelect
            {...attributes}
            disabled={deletes}
            value={value.action}
            onChange={event =>
              onChange({ action: event.target.value as 'delete' | 'stop' })
            }
          >
            <option value="stop">{trans.__('It is stopped')}</option>
            <option value="delete">
              {trans.__('It is deleted with its disk')}
            </option>
          </HTMLSelect>
        )}
      </Field>
      <p>
        {deletes
          ? trans.__(
              'Without a limit, it runs until you delete it. With one, it is deleted even while this computer is off.'
            )
          : trans.__(
              'Without a limit, it runs until you stop it. With one, it stops even while this computer is off.'
            )}
      </p>
    </>
  );
}

// Whether the variables of kernels are saved before these end: a choice in the question for that.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { trans } from '../language/translation';
import { IConsequences, IStopTPU } from '../rest/api';
import { Field } from '../ui/field';

type Sessions = NonNullable<IStopTPU['sessions']>;

/** What the user has chosen; without a choice, the server's own. */
export interface ISaves {
  sessions?: Sessions;
}

/** Nothing where no kernel ends, or where what is saved would not last. */
export function SaveChoice(props: {
  act: string;
  loss: IConsequences;
  /** Gets what is chosen. */
  saves: ISaves;
}) {
  const { act, loss, saves } = props;
  const onDisk = act === 'stop' && !loss.saves;
  if (loss.kernels.length === 0 || !(loss.saves || onDisk)) {
    return null;
  }
  const require = [
    'require',
    onDisk
      ? trans.__('Save on its disk first; continue only if all are saved')
      : trans.__('Save first; continue only if all are saved')
  ] as const;
  const skip = ['skip', trans.__('Do not save')] as const;
  const save = ['save', trans.__('Save what can be saved first')] as const;
  const choices = onDisk ? [skip, require] : [save, require, skip];
  return (
    <Field label={trans.__('Variables of these kernels')}>
      {ids => (
        <HTMLSelect
          {...ids}
          defaultValue={saves.sessions ?? choices[0][0]}
          onChange={event => {
            saves.sessions = event.target.value as Sessions;
          }}
        >
          {choices.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </HTMLSelect>
      )}
    </Field>
  );
}

// The choice of a host, for TPUs that have several.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React from 'react';

import { ITPU } from '../rest/api';
import { Field } from './field';
import { trans } from './translation';

export function HostField(props: {
  tpu: ITPU;
  host: number;
  onChange: (host: number) => void;
}): JSX.Element | null {
  const { host, onChange, tpu } = props;
  if (tpu.hosts.length < 2) {
    return null;
  }
  return (
    <Field label={trans.__('Host')}>
      {attributes => (
        <HTMLSelect
          {...attributes}
          value={host}
          onChange={event => onChange(Number(event.target.value))}
        >
          {tpu.hosts.map((_, index) => (
            <option key={index} value={index}>
              {trans.__('Host %1', index)}
            </option>
          ))}
        </HTMLSelect>
      )}
    </Field>
  );
}

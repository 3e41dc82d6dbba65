// The dialog that asks for a port of a host, and for the local port of a tunnel.

import React from 'react';

import { IOpenTunnel, ITPU } from '../rest/api';
import { Field } from '../ui/field';
import { ask } from '../ui/formDialog';
import { HostField } from '../ui/hostField';
import { trans } from '../ui/translation';

/** Asks for a port of a host, for the host where there are several, and for a tunnel's local port. */
export async function askPort(
  what: 'app' | 'tunnel',
  tpu: ITPU
): Promise<IOpenTunnel | null> {
  const tunnel = what === 'tunnel';
  const ports = await ask(
    tunnel
      ? trans.__('New tunnel to %1', tpu.name)
      : trans.__('Open a web app on %1', tpu.name),
    trans.__('Open'),
    // What is typed; "" for the local port that the server chooses.
    { port: '6006', local: '', host: 0 },
    (value, change) => (
      <>
        <PortField
          label={trans.__('Port on the TPU')}
          problem={portProblem(value.port)}
          required
          value={value.port}
          onChange={port => change({ port })}
        />
        {tunnel && (
          <PortField
            label={trans.__('Port on this computer (optional)')}
            help={trans.__(
              'Empty: the same number if it is free, else another one. “This computer” runs Jupyter.'
            )}
            problem={value.local && portProblem(value.local)}
            value={value.local}
            onChange={local => change({ local })}
          />
        )}
        <HostField
          tpu={tpu}
          host={value.host}
          onChange={host => change({ host })}
        />
      </>
    )
  );
  if (!ports || portProblem(ports.port)) {
    return null;
  }
  return {
    port: Number(ports.port),
    local_port: ports.local ? Number(ports.local) : null,
    host: ports.host
  };
}

/** Why it is not a port; "" if it is one. */
export function portProblem(text: string): string {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535
    ? ''
    : trans.__('Enter a number from 1 to 65535.');
}

/** A field for the number of a port. */
export function PortField(props: {
  label: string;
  help?: string;
  problem: string;
  required?: boolean;
  value: string;
  onChange: (value: string) => void;
}): JSX.Element {
  const { help, label, onChange, problem, required, value } = props;
  return (
    <Field label={label} help={help} problem={problem}>
      {attributes => (
        // JupyterLab disables the dialog's button while a field is invalid.
        <input
          {...attributes}
          className="jp-mod-styled"
          type="number"
          min={1}
          max={65535}
          required={required}
          defaultValue={value}
          onChange={event =>
            // What is no number has no value, but is no empty field either.
            onChange(
              event.target.validity.badInput ? '?' : event.target.value.trim()
            )
          }
        />
      )}
    </Field>
  );
}

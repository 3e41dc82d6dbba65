// The dialog that asks for a port of a host, and for the local port of a tunnel.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { IOpenTunnel, ITPU } from '../api';
import { Field } from '../panel/field';
import { HostField } from '../panel/hostField';

/** What is typed; "" for the local port that the server chooses. */
interface IPorts {
  port: string;
  local: string;
  host: number;
}

/** Asks for a port of a host, for the host where there are several, and for a tunnel's local port. */
export async function askPort(
  what: 'app' | 'tunnel',
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IOpenTunnel | null> {
  const tunnel = what === 'tunnel';
  const result = await showDialog({
    title: tunnel
      ? trans.__('New tunnel to %1', tpu.name)
      : trans.__('Open a web app on %1', tpu.name),
    body: new PortBody(tunnel, tpu, trans),
    focusNodeSelector: 'input',
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Open') })
    ]
  });
  const ports = result.button.accept ? result.value : null;
  if (!ports || portProblem(ports.port, trans)) {
    return null;
  }
  return {
    port: Number(ports.port),
    local_port: ports.local ? Number(ports.local) : null,
    host: ports.host
  };
}

/** Why it is not a port; "" if it is one. */
export function portProblem(text: string, trans: TranslationBundle): string {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535
    ? ''
    : trans.__('Enter a number from 1 to 65535.');
}

class PortBody extends ReactWidget implements Dialog.IBodyWidget<IPorts> {
  constructor(
    private _tunnel: boolean,
    private _tpu: ITPU,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-Dialog');
  }

  getValue(): IPorts {
    return this._ports;
  }

  protected render(): JSX.Element {
    return (
      <Ports
        ports={this._ports}
        tunnel={this._tunnel}
        tpu={this._tpu}
        trans={this._trans}
        onChange={ports => {
          this._ports = ports;
        }}
      />
    );
  }

  private _ports: IPorts = { port: '6006', local: '', host: 0 };
}

function Ports(props: {
  ports: IPorts;
  tunnel: boolean;
  tpu: ITPU;
  trans: TranslationBundle;
  onChange: (ports: IPorts) => void;
}): JSX.Element {
  const { tpu, trans, tunnel } = props;
  const [ports, setPorts] = useState(props.ports);
  const change = (more: Partial<IPorts>) => {
    const now = { ...ports, ...more };
    setPorts(now);
    props.onChange(now);
  };
  return (
    <>
      <PortField
        label={trans.__('Port on the TPU')}
        problem={portProblem(ports.port, trans)}
        required
        value={ports.port}
        onChange={port => change({ port })}
      />
      {tunnel && (
        <PortField
          label={trans.__('Port on this computer (optional)')}
          help={trans.__(
            'Empty: the same number if it is free, else another one. “This computer” runs Jupyter.'
          )}
          problem={ports.local && portProblem(ports.local, trans)}
          value={ports.local}
          onChange={local => change({ local })}
        />
      )}
      <HostField
        tpu={tpu}
        host={ports.host}
        trans={trans}
        onChange={host => change({ host })}
      />
    </>
  );
}

function PortField(props: {
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

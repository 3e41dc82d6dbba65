// The dialogs that ask for a port of a host, and for the local port of a tunnel.

import type { Actions } from '../app/actions';
import { trans } from '../language/translation';
import { IOpenTunnel, ITPU } from '../rest/api';
import { hostField } from '../ui/fields';
import { ask } from '../ui/formDialog';

/** Asks for a port of a host, for the host where there are several, and for a tunnel's local port. */
async function askPort(
  tpu: ITPU,
  tunnel: boolean,
  submit?: (request: IOpenTunnel) => Promise<unknown>
): Promise<IOpenTunnel | null> {
  // What is typed; "" for the local port that the server chooses.
  type Input = { port: string; local: string; host: number };
  const requestOf = ({ host, local, port }: Input): IOpenTunnel => ({
    port: Number(port),
    local_port: local ? Number(local) : null,
    host
  });
  const input = await ask<Input>({
    title: tunnel
      ? trans.__('New Tunnel to %1', tpu.name)
      : trans.__('Open a Web App on %1', tpu.name),
    accept: trans.__('Open'),
    initial: { port: '6006', local: '', host: 0 },
    fields: ({ local, port }) => [
      {
        name: 'port',
        label: trans.__('Port on the TPU'),
        kind: 'port',
        problem: portProblem(port),
        required: true
      },
      tunnel && {
        name: 'local',
        label: trans.__('Port on this computer (optional)'),
        help: trans.__(
          'Empty: the same number if it is free, else another one. “This computer” runs Jupyter.'
        ),
        kind: 'port',
        problem: local && portProblem(local)
      },
      hostField(tpu)
    ],
    submit: submit && (input => submit(requestOf(input)))
  });
  return input && !portProblem(input.port) ? requestOf(input) : null;
}

/** Asks for a port with a web app; null for none. */
export function askApp(tpu: ITPU): Promise<IOpenTunnel | null> {
  return askPort(tpu, false);
}

/** Opens a tunnel, and shows the page where it is listed. */
export async function openTunnel(
  tpu: ITPU,
  { model, open }: Actions
): Promise<void> {
  const opened = await askPort(tpu, true, async request =>
    model.keep({ tunnel: await model.client.tunnels.open(tpu, request) })
  );
  if (opened) {
    await open.tpu(tpu);
  }
}

/** Why it is not a port; "" if it is one. */
export function portProblem(text: string): string {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535
    ? ''
    : trans.__('Enter a number from 1 to 65535.');
}

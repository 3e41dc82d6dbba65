// Opening and closing ports of hosts, with the questions before it.

import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { IApp, IOpenTunnel, ITPU, ITunnel } from '../rest/api';
import { confirm } from '../ui/confirm';
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
  { model, open }: IPanelActions
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

/** Closes a web app; asks first where that ends its server on the host. */
export async function closeApp(
  { model }: IPanelActions,
  tpu: ITPU,
  { id, kind, name }: IApp
): Promise<void> {
  const agreed =
    kind !== 'tensorboard' ||
    (await confirm(
      trans.__('Close %1?', name),
      trans.__('TensorBoard stops on the host. Your logs are kept.'),
      trans.__('Close')
    ));
  if (agreed) {
    await model.close(tpu, id, ({ apps }) => apps.close(id));
  }
}

/** Closes a tunnel; asks first while it is in use. */
export async function closeTunnel(
  { model }: IPanelActions,
  tpu: ITPU,
  { connections, id, port }: ITunnel
): Promise<void> {
  const agreed =
    connections === 0 ||
    (await confirm(
      trans.__('Close the tunnel to port %1?', port),
      trans._n(
        'This ends %1 connection.',
        'This ends %1 connections.',
        connections
      ),
      trans.__('Close')
    ));
  if (agreed) {
    await model.close(tpu, id, ({ tunnels }) => tunnels.close(tpu, id));
  }
}

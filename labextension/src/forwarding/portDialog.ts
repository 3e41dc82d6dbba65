// Opening and closing ports of hosts, with the questions before it.

import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { IApp, IOpenTunnel, ITPU, ITunnel } from '../rest/api';
import { agreed } from '../ui/confirm';
import { hostField } from '../ui/fields';
import { ask } from '../ui/formDialog';
import {
  closeAppQuestion,
  closeTunnelQuestion,
  portProblem
} from './portLabels';

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

/** Closes a web app; asks first where that ends its server on the host. */
export async function closeApp(
  { model }: IPanelActions,
  tpu: ITPU,
  app: IApp
): Promise<void> {
  if (await agreed(closeAppQuestion(app))) {
    await model.close(tpu, app.id, ({ apps }) => apps.close(app.id));
  }
}

/** Closes a tunnel; asks first while it is in use. */
export async function closeTunnel(
  { model }: IPanelActions,
  tpu: ITPU,
  tunnel: ITunnel
): Promise<void> {
  const { id } = tunnel;
  if (await agreed(closeTunnelQuestion(tunnel))) {
    await model.close(tpu, id, ({ tunnels }) => tunnels.close(tpu, id));
  }
}

// The tunnels to a TPU, and the web apps of its hosts that are open.

import { Clipboard } from '@jupyterlab/apputils';
import { closeIcon, copyIcon, launchIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { facts, problemLine } from '../language/text';
import { Tone, trans } from '../language/translation';
import { targetOf, targetOn } from '../model/appTarget';
import { IApp, ITunnel } from '../rest/api';
import { IconButton, StateLabel } from '../ui/elements';
import { ListSection } from '../ui/listSection';
import { Row } from '../ui/rows';
import { closeApp, closeTunnel } from './portDialog';
import { portLabel, trafficLabel } from './portLabels';

const TONES: { [state in ITunnel['state']]: Tone } = {
  elsewhere: 'quiet',
  'needs-attention': 'bad',
  open: 'good',
  taken: 'bad',
  waiting: 'moving'
};

export function Ports({ tpu }: ITPUProps) {
  const actions = useActions();
  const { model } = actions;
  const tunnels = model.tunnels(tpu);
  const apps = model.apps(tpu);
  const usable = tpu.state === 'READY';
  if (!usable && tunnels.length === 0 && apps.length === 0) {
    return null;
  }
  return (
    <>
      <ListSection
        id="apps"
        title={trans.__('Web apps')}
        label={trans.__('Web apps on %1', tpu.name)}
        none={trans.__('Web apps on a host, such as TensorBoard')}
        add={{
          label: trans.__('Open a web app on %1', tpu.name),
          disabled: !usable || !actions.offers('app'),
          run: () => actions.act('app', tpu)
        }}
        items={apps}
        sorts={[
          ['name', trans.__('Name'), ({ name }) => name],
          ['port', trans.__('Port'), ({ port }) => port],
          ['host', trans.__('Host'), ({ host }) => host]
        ]}
        row={app => <App key={app.id} app={app} tpu={tpu} />}
      />
      <ListSection
        id="tunnels"
        title={trans.__('Tunnels')}
        label={trans.__('Tunnels to %1', tpu.name)}
        none={trans.__('Local ports forwarded to a host')}
        add={{
          label: trans.__('New tunnel to %1', tpu.name),
          disabled: !usable,
          run: () => actions.act('tunnel', tpu)
        }}
        items={tunnels}
        sorts={[
          ['local', trans.__('Local port'), tunnel => tunnel.local_port],
          ['port', trans.__('Port'), ({ port }) => port],
          ['host', trans.__('Host'), ({ host }) => host]
        ]}
        row={tunnel => <Tunnel key={tunnel.id} tunnel={tunnel} tpu={tpu} />}
      />
    </>
  );
}

function App({ app, tpu }: ITPUProps & { app: IApp }) {
  const actions = useActions();
  const about = facts(
    app.logdir || (app.path !== '/' && app.path),
    app.name !== trans.__('Port %1', app.port) && trans.__('port %1', app.port),
    app.host > 0 && trans.__('host %1', app.host),
    trafficLabel(app.sent, app.received),
    problemLine(app.problem)
  );
  return (
    <Row
      name={app.name}
      title={`${app.name} · ${app.logdir || app.path}`}
      buttons={
        <>
          <IconButton
            icon={launchIcon}
            label={trans.__('Show %1', app.name)}
            disabled={!actions.offers('app')}
            onClick={() => void actions.open.app(targetOf(app))}
          />
          <IconButton
            icon={closeIcon}
            label={trans.__('Close %1', app.name)}
            onClick={() => void closeApp(actions, tpu, app)}
          />
        </>
      }
      more={
        <>
          <StateLabel tone={TONES[app.state]}>
            {portLabel(app.state)}
          </StateLabel>
          {about && ` · ${about}`}
        </>
      }
    />
  );
}

function Tunnel({ tunnel, tpu }: ITPUProps & { tunnel: ITunnel }) {
  const actions = useActions();
  const { address, host, local_port, port, problem } = tunnel;
  const here = `${address === '127.0.0.1' ? 'localhost' : address}:${local_port}`;
  const about = facts(
    host > 0
      ? trans.__('to port %1 on host %2', port, host)
      : trans.__('to port %1', port),
    tunnel.connections > 0 &&
      trans._n('%1 connection', '%1 connections', tunnel.connections),
    trafficLabel(tunnel.sent, tunnel.received),
    tunnel.local_port_reason,
    problemLine(problem)
  );
  return (
    <Row
      name={here}
      title={here}
      buttons={
        <>
          <IconButton
            icon={copyIcon}
            label={trans.__('Copy %1', here)}
            onClick={() => Clipboard.copyToSystem(here)}
          />
          <IconButton
            icon={launchIcon}
            label={trans.__('Open port %1', port)}
            disabled={!actions.offers('app')}
            onClick={() =>
              void actions.open.app(
                targetOn(tpu, trans.__('Port %1', port), { host, port })
              )
            }
          />
          <IconButton
            icon={closeIcon}
            label={trans.__('Close the tunnel at %1', here)}
            onClick={() => void closeTunnel(actions, tpu, tunnel)}
          />
        </>
      }
      more={
        <>
          <StateLabel tone={TONES[tunnel.state]} title={tunnel.since}>
            {portLabel(tunnel.state)}
          </StateLabel>
          {` · ${about}`}
        </>
      }
    />
  );
}

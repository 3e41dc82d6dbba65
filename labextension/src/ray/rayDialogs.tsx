// Ray on the hosts of a TPU: the question before it is started, and what can be done while it runs.

import { Dialog } from '@jupyterlab/apputils';
import React from 'react';

import { trans } from '../language/translation';
import { IAppTarget, targetOf, targetOn } from '../model/appTarget';
import { startableEnvironments } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { IRay, IStartRay, ITPU } from '../rest/api';
import { show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';
import { waitToEnd } from '../ui/wait';

/** Asks to start Ray, or shows the cluster that there is. */
export async function openRay(
  tpu: ITPU,
  model: TPUModel,
  openApp: (target: IAppTarget) => Promise<void>
): Promise<void> {
  const cluster = await waitToEnd(
    trans.__('Looking for Ray on %1', tpu.name),
    model.client.ray.get(tpu)
  );
  if (!cluster) {
    return;
  }
  if (cluster.state === 'stopped' || cluster.state === 'failed') {
    const request = await askStart(tpu, cluster);
    const started =
      request &&
      (await model.sendForApp(tpu, ({ ray }) => ray.start(tpu, request)));
    if (started) {
      await openApp(targetOf(started.app));
    }
    return;
  }
  const { displayType, label } = await askRunning(tpu, cluster);
  if (label === openLabel()) {
    await openApp(targetOn(tpu, trans.__('Ray')));
  } else if (displayType === 'warn') {
    const stopped = await waitToEnd(
      trans.__('Stopping Ray on %1', tpu.name),
      model.client.ray.stop(tpu)
    );
    if (stopped) {
      notify.success(trans.__('Ray on %1 is stopping.', tpu.name));
    }
  }
}

const openLabel = () => trans.__('Open Dashboard');

/** What is to be started; null if the user does not want that. */
function askStart(tpu: ITPU, cluster: IRay): Promise<IStartRay | null> {
  const environments = startableEnvironments(tpu).map(({ name }) => name);
  return ask<IStartRay>({
    title: trans.__('Start Ray on %1', tpu.name),
    accept: trans.__('Start'),
    initial: {
      environment: environments.includes('default')
        ? 'default'
        : environments[0],
      install: true
    },
    fields: () => [
      cluster.problem && <p>{cluster.problem.message}</p>,
      <p>
        {trans._n(
          'Ray runs on the host until you stop it.',
          'Ray runs on all %1 hosts until you stop it.',
          tpu.hosts.length
        )}{' '}
        {trans.__('In a notebook on this TPU, ray.init() connects to it.')}
      </p>,
      {
        name: 'environment',
        label: trans.__('Environment'),
        kind: 'select',
        choices: environments.map(name => [name, name])
      },
      {
        name: 'install',
        label: trans.__('Install Ray if it is missing (about 600 MB)'),
        kind: 'check'
      }
    ]
  });
}

/** What to do with a cluster that runs: the button that was chosen. */
function askRunning(tpu: ITPU, cluster: IRay): Promise<Dialog.IButton> {
  const buttons = [
    ...(cluster.state === 'stopping'
      ? []
      : [Dialog.warnButton({ label: trans.__('Stop Ray') })]),
    ...(cluster.state === 'running'
      ? [Dialog.okButton({ label: openLabel() })]
      : [])
  ];
  // Enter alone must not end anything.
  const enter = cluster.state === 'running' ? 1 : buttons.length;
  const title = trans.__('Ray on %1', tpu.name);
  return show(title, <Cluster cluster={cluster} />, buttons, enter);
}

function Cluster({ cluster }: { cluster: IRay }) {
  return (
    <>
      <p>{stateText(cluster)}</p>
      {cluster.problem && <p>{cluster.problem.message}</p>}
      {cluster.hosts.length > 0 && (
        <ul>
          {cluster.hosts.map(host => (
            <li key={host.host}>
              {host.state === 'alive'
                ? trans.__(
                    'Host %1: %2 chips, %3 processors',
                    host.host,
                    host.chips,
                    host.processors
                  )
                : trans.__('Host %1 has not joined', host.host)}
            </li>
          ))}
        </ul>
      )}
      <p>{trans.__('In a notebook on this TPU, ray.init() connects to it.')}</p>
    </>
  );
}

function stateText(cluster: IRay): string {
  const labels: { [state: string]: string } = {
    running: trans.__(
      'Ray %1 is running at %2.',
      cluster.version,
      cluster.address
    ),
    starting: trans.__('Ray is starting.'),
    stopping: trans.__('Ray is stopping.')
  };
  return (
    labels[cluster.state] ?? trans.__('It is not known whether Ray is running.')
  );
}

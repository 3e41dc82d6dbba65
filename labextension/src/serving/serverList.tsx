// The servers of models on a TPU: jobs that answer requests.

import { Clipboard } from '@jupyterlab/apputils';
import {
  closeIcon,
  copyIcon,
  listIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { isOver } from '../model/jobs';
import { TPUModel } from '../model/model';
import { IJob, ITPU } from '../rest/api';
import { agreed } from '../ui/confirm';
import { IconButton, StateLabel } from '../ui/elements';
import { ListSection } from '../ui/listSection';
import { Row } from '../ui/rows';
import {
  SERVER_TONES,
  serverFacts,
  serverState,
  serverStateLabel,
  serverURL
} from './serverLabels';

export function ModelServers({ tpu }: ITPUProps) {
  const actions = useActions();
  const servers = actions.model.jobs.of(tpu).filter(one => one.serving);
  const usable = tpu.state === 'READY';
  if (!usable && servers.length === 0) {
    return null;
  }
  return (
    <ListSection
      id="servers"
      title={trans.__('Model servers')}
      label={trans.__('Model servers on %1', tpu.name)}
      none={trans.__('Models that answer requests')}
      add={{
        label: trans.__('Start a model server on %1', tpu.name),
        disabled: !usable || !actions.offers('serve'),
        run: () => actions.act('serve', tpu)
      }}
      items={servers}
      sorts={[
        ['name', trans.__('Name'), ({ name }) => name],
        ['state', trans.__('State'), job => serverState(job)],
        ['created', trans.__('Started'), ({ created }) => created]
      ]}
      row={job => <ModelServer key={job.id} job={job} tpu={tpu} />}
    />
  );
}

function ModelServer({ job, tpu }: ITPUProps & { job: IJob }) {
  const actions = useActions();
  const over = isOver(job);
  const url = serverURL(job, actions.model.tunnels(tpu));
  const state = serverState(job);
  const about = serverFacts(job, url);
  return (
    <Row
      name={job.name}
      title={job.command.join(' ')}
      buttons={
        <>
          {url && (
            <IconButton
              icon={copyIcon}
              label={trans.__('Copy %1', url)}
              onClick={() => Clipboard.copyToSystem(url)}
            />
          )}
          <IconButton
            icon={listIcon}
            label={trans.__('Show the output of %1', job.name)}
            disabled={!actions.offers('job')}
            onClick={() => void actions.jobs.showLog(job)}
          />
          <IconButton
            icon={over ? closeIcon : stopIcon}
            label={
              over
                ? trans.__('Remove %1 and its output…', job.name)
                : trans.__('Stop %1…', job.name)
            }
            onClick={() => void endServer(tpu, job, actions.model)}
          />
        </>
      }
      more={
        <>
          <StateLabel tone={SERVER_TONES[state]}>
            {serverStateLabel(state)}
          </StateLabel>
          {about && ` · ${about}`}
        </>
      }
    />
  );
}

/** Stops a server, or removes one that has ended. */
async function endServer(tpu: ITPU, job: IJob, model: TPUModel): Promise<void> {
  if (isOver(job)) {
    const question = {
      title: trans.__('Remove %1?', job.name),
      text: trans.__('Its output on the hosts will be deleted.'),
      accept: trans.__('Remove')
    };
    if (await agreed(question)) {
      await model.jobs.remove(tpu, job.id);
    }
    return;
  }
  const question = {
    title: trans.__('Stop %1?', job.name),
    text: trans.__(
      'Requests to it will fail, and its local port is closed. The output is kept.'
    ),
    accept: trans.__('Stop')
  };
  if (await agreed(question)) {
    await model.send(tpu, async client => {
      await client.serving.stop(tpu, job.id);
    });
  }
}

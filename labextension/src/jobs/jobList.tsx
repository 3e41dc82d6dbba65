// The jobs of a TPU: what runs there without us.

import {
  closeIcon,
  infoIcon,
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
import { JOB_TONES, jobDetails, jobState, stopQuestion } from './jobLabels';

export function Jobs({ tpu }: ITPUProps) {
  const actions = useActions();
  // Servers of models have a list of their own.
  const jobs = actions.model.jobs.of(tpu).filter(one => !one.serving);
  const usable = tpu.state === 'READY';
  if (!usable && jobs.length === 0) {
    return null;
  }
  return (
    <ListSection
      id="jobs"
      title={trans.__('Jobs')}
      label={trans.__('Jobs on %1', tpu.name)}
      none={trans.__('Commands that continue without Jupyter')}
      add={{
        label: trans.__('New job on %1', tpu.name),
        disabled: !usable || !actions.offers('job'),
        run: () => actions.act('job', tpu)
      }}
      items={jobs}
      sorts={[
        ['name', trans.__('Name'), ({ name }) => name],
        ['state', trans.__('State'), job => jobState(job)],
        ['created', trans.__('Started'), ({ created }) => created]
      ]}
      row={job => <Job key={job.id} job={job} tpu={tpu} />}
    />
  );
}

function Job({ job, tpu }: ITPUProps & { job: IJob }) {
  const actions = useActions();
  const over = isOver(job);
  return (
    <Row
      name={job.name}
      title={job.command.join(' ')}
      buttons={
        <>
          <IconButton
            icon={listIcon}
            label={trans.__('Show the output of %1', job.name)}
            disabled={!actions.offers('job')}
            onClick={() => void actions.jobs.showLog(job)}
          />
          {!over && (
            <IconButton
              icon={infoIcon}
              label={trans.__('Where does %1 stand?', job.name)}
              onClick={() => void actions.jobs.showWhere(job)}
            />
          )}
          <IconButton
            icon={over ? closeIcon : stopIcon}
            label={
              over
                ? trans.__('Remove %1 and its output…', job.name)
                : trans.__('Stop %1…', job.name)
            }
            onClick={() => void endJob(tpu, job, actions.model)}
          />
        </>
      }
      more={
        <>
          <StateLabel tone={JOB_TONES[job.state]}>{jobState(job)}</StateLabel>
          {jobDetails(job, tpu, Date.now()).map(fact => ` · ${fact}`)}
        </>
      }
    />
  );
}

/** Stops a job, or removes one that has ended. */
async function endJob(tpu: ITPU, job: IJob, model: TPUModel): Promise<void> {
  const over = isOver(job);
  const question = over
    ? {
        title: trans.__('Remove %1?', job.name),
        text: trans.__('Its output on the hosts will be deleted.'),
        accept: trans.__('Remove')
      }
    : stopQuestion(job);
  if (await agreed(question)) {
    await (over
      ? model.jobs.remove(tpu, job.id)
      : model.jobs.stop(tpu, job.id));
  }
}

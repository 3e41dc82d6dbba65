// The jobs of a TPU: what runs there without us.

import {
  addIcon,
  closeIcon,
  listIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import { Actions, ITPUProps } from '../actions/actions';
import { IJob, ITPU } from '../rest/api';
import { IconButton, Section, StateLabel } from '../ui/elements';
import { trans } from '../ui/translation';
import { JOB_TONES, jobDetails, jobState } from './jobLabels';
import { isOver } from './jobModel';

export function Jobs({ tpu, actions }: ITPUProps): JSX.Element | null {
  const { model, view } = actions;
  const jobs = model.jobs.of(tpu);
  const usable = tpu.state === 'READY';
  if (!usable && jobs.length === 0) {
    return null;
  }
  return (
    <Section
      id="jobs"
      view={view}
      title={trans.__('Jobs')}
      none={
        jobs.length === 0 && trans.__('Commands that continue without Jupyter')
      }
      aside={
        <IconButton
          icon={addIcon}
          label={trans.__('New job on %1', tpu.name)}
          disabled={!usable || !actions.offers('job')}
          onClick={() => void actions.act('job', tpu)}
        />
      }
    >
      <ul aria-label={trans.__('Jobs on %1', tpu.name)}>
        {jobs.map(job => (
          <Job key={job.id} job={job} tpu={tpu} actions={actions} />
        ))}
      </ul>
    </Section>
  );
}

function Job(props: { job: IJob; tpu: ITPU; actions: Actions }): JSX.Element {
  const { job, tpu, actions } = props;
  const over = isOver(job);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={job.command.join(' ')}>
        {job.name}
      </span>
      <span className="jp-tpu-Row-buttons">
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
          onClick={() =>
            void (over
              ? actions.jobs.remove(tpu, job)
              : actions.jobs.stop(tpu, job))
          }
        />
      </span>
      <span className="jp-tpu-Row-more">
        <StateLabel tone={JOB_TONES[job.state]}>{jobState(job)}</StateLabel>
        {jobDetails(job, tpu, Date.now()).map(one => ` · ${one}`)}
      </span>
    </li>
  );
}

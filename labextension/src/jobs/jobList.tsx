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
import { Row, SortableList } from '../ui/rows';
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
      <SortableList
        id="jobs"
        view={view}
        label={trans.__('Jobs on %1', tpu.name)}
        items={jobs}
        sorts={[
          ['name', trans.__('Name'), ({ name }) => name],
          ['state', trans.__('State'), job => jobState(job)],
          ['created', trans.__('Started'), ({ created }) => created]
        ]}
      >
        {job => <Job key={job.id} job={job} tpu={tpu} actions={actions} />}
      </SortableList>
    </Section>
  );
}

function Job(props: { job: IJob; tpu: ITPU; actions: Actions }): JSX.Element {
  const { job, tpu, actions } = props;
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

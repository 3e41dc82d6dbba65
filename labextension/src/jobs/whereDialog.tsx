// The dialog that says where a job stands on its hosts.

import React from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IJob } from '../rest/api';
import { show } from '../ui/confirm';
import { waitIfSlow } from '../ui/wait';
import { visible } from './outputLines';

/** Asks all hosts, and shows what `jupyter tpu job why` prints. Throws `Failure`. */
export async function showWhere(job: IJob, model: TPUModel): Promise<void> {
  const { id, name, tpu, zone } = job;
  const where = await waitIfSlow(
    trans.__('Asking the hosts of %1 where %2 stands', tpu, name),
    model.client.jobs.why({ name: tpu, zone }, id)
  );
  await show(
    trans.__('Where Does %1 Stand?', name),
    <>
      {where.explanation.map(line => (
        <p key={line}>{visible(line)}</p>
      ))}
    </>
  );
}

// The dialog that asks for a folder to share, and which other TPUs get it.

import React from 'react';

import { IShareFolder, IShareResult, ITPU } from '../rest/api';
import { confirm, show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';
import { ShareSteps } from './shareSteps';

export async function askShare(
  tpu: ITPU,
  others: ITPU[],
  submit: (request: IShareFolder) => Promise<void>
): Promise<void> {
  await ask({
    title: trans.__('Share a Folder of %1', tpu.name),
    accept: trans.__('Show What Changes'),
    initial: { folder: 'shared', tpus: [] as string[] },
    fields: () => [
      {
        name: 'folder',
        label: trans.__('Folder on host 0'),
        help: trans.__(
          'Relative to the home folder, or an absolute path. The other hosts get it at the same path, by NFS.'
        ),
        kind: 'path',
        place: { tpu, host: 0, folder: true },
        required: true
      },
      {
        name: 'tpus',
        label: trans.__('Also share with'),
        kind: 'ticks',
        choices: others.map(({ name }) => [
          name,
          trans.__('On the hosts of %1, too', name)
        ])
      }
    ],
    submit
  });
}

/** Shows what sharing a folder changes, or why it can't be shared; whether to do it. */
export async function confirmShare({
  hosts,
  path,
  request
}: IShareResult): Promise<boolean> {
  const steps = <ShareSteps hosts={hosts} />;
  if (hosts.some(host => host.problem)) {
    await show(trans.__('%1 can’t be shared', path), steps);
    return false;
  }
  return confirm(
    request.remove
      ? trans.__('Stop sharing %1?', path)
      : trans.__('Share %1?', path),
    <>
      <p>
        {request.remove
          ? trans.__('Its files stay on host 0. This changes the hosts:')
          : trans.__('This changes the hosts:')}
      </p>
      {steps}
    </>,
    request.remove ? trans.__('Stop Sharing') : trans.__('Share'),
    { harmless: !request.remove }
  );
}

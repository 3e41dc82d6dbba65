// The folders that a TPU's hosts share.

import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { ISharedFolder } from '../rest/api';
import { LookedUp } from '../ui/listed';
import { Row } from '../ui/rows';

/** The folders that a TPU's hosts share. */
export function SharedFolders({ tpu }: ITPUProps) {
  const { shares } = useActions();
  return (
    <LookedUp
      title={trans.__('Shared folders')}
      lookup={shares.lookups.of(tpu)}
      items={tpu.shares?.folders}
      problems={tpu.shares?.problems}
      none={trans.__('No folder is shared.')}
      ask={{
        first: trans.__('Show shared folders'),
        again: trans.__('Refresh'),
        label: trans.__('Ask the hosts which folders they share'),
        busy: trans.__('Asking the hosts…')
      }}
    >
      {folder => (
        <Folder key={folder.tpu + folder.path} folder={folder} tpu={tpu} />
      )}
    </LookedUp>
  );
}

function Folder({ folder, tpu }: ITPUProps & { folder: ISharedFolder }) {
  const { shares } = useActions();
  const clients = folder.hosts.filter(host => host.role === 'client');
  const mounted = clients.filter(host => host.mounted).length;
  const problems = folder.hosts.filter(host => host.problem);
  return (
    <Row
      name={folder.path}
      state={{
        label: trans.__('on %1 of %2 other hosts', mounted, clients.length),
        tone: problems.length > 0 ? 'bad' : 'good'
      }}
      remove={
        folder.tpu === tpu.name
          ? {
              label: trans.__('Stop sharing %1…', folder.path),
              run: () => shares.stop(tpu, folder)
            }
          : undefined
      }
      more={
        folder.tpu !== tpu.name && trans.__('From host 0 of %1', folder.tpu)
      }
    >
      {problems.map(({ host, problem, tpu: name }) => (
        <span key={`${name} ${host}`} className="jp-tpu-Row-more">
          {trans.__('Host %1 of %2: %3', host, name, problem)}
        </span>
      ))}
    </Row>
  );
}

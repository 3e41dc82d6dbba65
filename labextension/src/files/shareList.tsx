// The folders that a TPU's hosts share.

import React from 'react';

import { ITPUProps } from '../actions/actions';
import { ISharedFolder } from '../rest/api';
import { LookedUp } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';

/** The folders that a TPU's hosts share. */
export function SharedFolders({ tpu, actions }: ITPUProps): JSX.Element {
  const { shares } = actions;
  const lookup = useStore(shares.lookups).of(tpu);
  return (
    <LookedUp
      title={trans.__('Shared folders')}
      lookup={lookup}
      items={tpu.shares?.folders}
      problems={tpu.shares?.problems}
      none={trans.__('No folder is shared.')}
      ask={{
        first: trans.__('Show shared folders'),
        again: trans.__('Refresh'),
        label: trans.__('Ask the hosts which folders they share'),
        busy: trans.__('Asking the hosts…')
      }}
      onAsk={() => shares.lookups.load(tpu)}
    >
      {folder => (
        <Folder
          key={`${folder.tpu}:${folder.path}`}
          folder={folder}
          tpu={tpu}
          actions={actions}
        />
      )}
    </LookedUp>
  );
}

function Folder(props: ITPUProps & { folder: ISharedFolder }): JSX.Element {
  const { folder, tpu, actions } = props;
  const { shares } = actions;
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

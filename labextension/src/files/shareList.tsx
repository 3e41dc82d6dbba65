// The folders that a TPU's hosts share.

import { closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions, ITPUProps } from '../actions/actions';
import { ISharedFolder, ITPU } from '../rest/api';
import { Alert, IconButton, Link, StateLabel } from '../ui/elements';
import { failureText } from '../ui/failures';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';

/** The folders that a TPU's hosts share. */
export function SharedFolders({ tpu, actions }: ITPUProps): JSX.Element {
  const { shares } = actions;
  const lookup = useStore(shares.lookups).of(tpu);
  const found = tpu.shares;
  return (
    <>
      {found && <h4>{trans.__('Shared folders')}</h4>}
      {lookup?.failure && <Alert {...failureText(lookup.failure)} />}
      {found?.problems.map(one => (
        <Alert key={one} message={one} />
      ))}
      {found && (
        <ul>
          {found.folders.map(folder => (
            <Folder
              key={`${folder.tpu}:${folder.path}`}
              folder={folder}
              tpu={tpu}
              actions={actions}
            />
          ))}
        </ul>
      )}
      {found?.folders.length === 0 && found.problems.length === 0 && (
        <p className="jp-tpu-Row-more">{trans.__('No folder is shared.')}</p>
      )}
      {lookup?.loading ? (
        <span role="status">{trans.__('Asking the hosts…')}</span>
      ) : (
        <Link
          label={trans.__('Ask the hosts which folders they share')}
          onClick={() => void shares.lookups.load(tpu)}
        >
          {found ? trans.__('Refresh') : trans.__('Show shared folders')}
        </Link>
      )}
    </>
  );
}

function Folder(props: {
  folder: ISharedFolder;
  tpu: ITPU;
  actions: Actions;
}): JSX.Element {
  const { folder, tpu, actions } = props;
  const { shares } = actions;
  const clients = folder.hosts.filter(host => host.role === 'client');
  const mounted = clients.filter(host => host.mounted).length;
  const problems = folder.hosts.filter(host => host.problem);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={folder.path}>
        {folder.path}
      </span>
      <StateLabel tone={problems.length > 0 ? 'bad' : 'good'}>
        {trans.__('on %1 of %2 other hosts', mounted, clients.length)}
      </StateLabel>
      {folder.tpu === tpu.name ? (
        <span className="jp-tpu-Row-buttons">
          <IconButton
            icon={closeIcon}
            label={trans.__('Stop sharing %1…', folder.path)}
            onClick={() => void shares.stop(tpu, folder)}
          />
        </span>
      ) : (
        <span className="jp-tpu-Row-more">
          {trans.__('From host 0 of %1', folder.tpu)}
        </span>
      )}
      {problems.map(({ host, problem, tpu: name }) => (
        <span key={`${name} ${host}`} className="jp-tpu-Row-more">
          {trans.__('Host %1 of %2: %3', host, name, problem)}
        </span>
      ))}
    </li>
  );
}

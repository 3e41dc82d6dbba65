// Folders that hosts share: the list, and what sharing one does on each host.

import { addIcon, closeIcon } from '@jupyterlab/ui-components';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { Actions } from '../actions/actions';
import {
  IHostShare,
  IOperation,
  ISharedFolder,
  IShareResult,
  ITPU
} from '../api';
import { hostRanges } from '../labels/doctor';
import { failureText } from '../labels/failures';
import { keyOf } from '../model/resources';
import { useStore } from '../store';
import { Alert, IconButton, Link, Section, StateLabel } from './elements';

/** The result of sharing a folder so far, or of planning that; null for other operations. */
export function shareResult(operation: IOperation): IShareResult | null {
  return operation.kind === 'share'
    ? (operation.result as unknown as IShareResult | null)
    : null;
}

/** What is done on each host, or why it can't be; hosts with the same are listed together. */
export function ShareSteps(props: {
  hosts: IHostShare[];
  trans: TranslationBundle;
}): JSX.Element {
  const { hosts, trans } = props;
  const groups = new Map<string, IHostShare[]>();
  for (const host of hosts) {
    const text = whatIsDone(host);
    if (text) {
      groups.set(text, [...(groups.get(text) ?? []), host]);
    }
  }
  return (
    <ul className="jp-tpu-Paths">
      {[...groups].map(([text, same]) => (
        <li key={text}>
          <span>{hostNames(same, trans)}</span>
          {same[0].problem ? (
            <p className="jp-tpu-Row-more">{text}</p>
          ) : (
            <pre className="jp-tpu-ShareSteps">{text}</pre>
          )}
        </li>
      ))}
    </ul>
  );
}

function whatIsDone({ problem, steps }: IHostShare): string {
  if (problem) {
    return `${problem.message} ${problem.hint}`;
  }
  return steps
    .flatMap(({ text, content }) => [
      text,
      ...content
        .split('\n')
        .filter(Boolean)
        .map(line => `  | ${line}`)
    ])
    .join('\n');
}

/** "Host 0 of a", "Hosts 1–3 of a · Host 0 of b". */
function hostNames(hosts: IHostShare[], trans: TranslationBundle): string {
  const tpus = new Map<string, number[]>();
  for (const { host, tpu } of hosts) {
    tpus.set(tpu, [...(tpus.get(tpu) ?? []), host]);
  }
  return [...tpus]
    .map(([tpu, numbers]) =>
      numbers.length === 1
        ? trans.__('Host %1 of %2', numbers[0], tpu)
        : trans.__('Hosts %1 of %2', hostRanges(numbers), tpu)
    )
    .join(' · ');
}

/** The folders that a TPU's hosts share. */
export function SharedFolders(props: {
  tpu: ITPU;
  actions: Actions;
}): JSX.Element {
  const { tpu, actions } = props;
  const { shares, trans, view } = actions;
  const lookup = useStore(shares.lookups).of(tpu);
  const found = tpu.shares;
  return (
    <Section
      id={`${keyOf(tpu)}#shares`}
      view={view}
      title={trans.__('Shared folders')}
      aside={
        <IconButton
          icon={addIcon}
          label={trans.__('Share a folder of %1…', tpu.name)}
          onClick={() => void actions.act('share', tpu)}
        />
      }
    >
      {lookup?.failure && <Alert {...failureText(lookup.failure, trans)} />}
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
    </Section>
  );
}

function Folder(props: {
  folder: ISharedFolder;
  tpu: ITPU;
  actions: Actions;
}): JSX.Element {
  const { folder, tpu, actions } = props;
  const { shares, trans } = actions;
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

// The details of operations on files: what would be overwritten, and what was left out.

import React from 'react';

import { trans } from '../language/translation';
import { INotCopied, IOperation } from '../rest/api';
import { resultOf } from './results';
import { ShareSteps } from './shareSteps';

/** What is shown with the details of an operation on files; nothing for others. */
export function FileResult({ operation }: { operation: IOperation }) {
  const copy = resultOf('copy', operation);
  const share = resultOf('share', operation);
  const sync = resultOf('sync', operation);
  const several = !!copy && copy.copies.length > 1;
  const problems = copy?.copies.flatMap(({ host, problems }) =>
    problems.map(({ path, message }) => ({
      path,
      why: message,
      hosts: several ? [host] : []
    }))
  );
  return (
    <>
      {copy && (
        <Paths
          title={trans.__('Files that exist')}
          paths={copy.existing.map(path => ({ path }))}
          more={copy.existing_count - copy.existing.length}
        />
      )}
      <LeftOut files={problems ?? sync?.not_copied ?? []} />
      {share && <ShareSteps hosts={share.hosts} />}
    </>
  );
}

export function LeftOut(props: {
  files: readonly Pick<INotCopied, 'hosts' | 'path' | 'why'>[];
}) {
  const paths = props.files.map(({ hosts, path, why }) => ({
    path,
    note: onHosts(why, hosts)
  }));
  return <Paths title={trans.__('Left out')} paths={paths} />;
}

/** Paths, each with a note; nothing where there is none. */
export function Paths(props: {
  title?: string;
  paths: readonly { path: string; note?: string }[];
  /** How many others there are. */
  more?: number;
}) {
  const { more = 0, paths, title } = props;
  if (paths.length === 0) {
    return null;
  }
  return (
    <>
      {title && <div>{title}</div>}
      <ul className="jp-tpu-Paths">
        {paths.map(({ note, path }, index) => (
          <li key={index} title={path}>
            <code>{path}</code>
            {note && <small>{note}</small>}
          </li>
        ))}
        {more > 0 && <li>{trans.__('… and %1 more', more)}</li>}
      </ul>
    </>
  );
}

/** A text with the hosts that it is about; without any, it is about all. */
export function onHosts(text: string, hosts: readonly number[]): string {
  return hosts.length > 0
    ? trans.__('%1 (host %2)', text, hosts.join(', '))
    : text;
}

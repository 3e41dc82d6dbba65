// How a copy went: what would be overwritten, and what was left out.

import React from 'react';

import { ICopyResult } from '../rest/api';
import { trans } from '../ui/translation';

/** What is shown with the details of a copy: files that exist, and those that were not copied. */
export function CopiedFiles({ result }: { result: ICopyResult }) {
  const { copies, existing, existing_count } = result;
  const more = existing_count - existing.length;
  const leftOut = copies.flatMap(({ host, problems }) =>
    problems.map(({ path, message }) => ({ host, path, message }))
  );
  return (
    <>
      {existing.length > 0 && (
        <>
          <div>{trans.__('Files that exist')}</div>
          <ul className="jp-tpu-Paths">
            {existing.map(path => (
              <li key={path} title={path}>
                <code>{path}</code>
              </li>
            ))}
            {more > 0 && <li>{trans.__('… and %1 more', more)}</li>}
          </ul>
        </>
      )}
      {leftOut.length > 0 && (
        <>
          <div>{trans.__('Left out')}</div>
          <ul className="jp-tpu-Paths">
            {leftOut.map(({ host, path, message }) => (
              <li key={`${host} ${path}`} title={path}>
                <code>{path}</code>
                <small>
                  {copies.length > 1
                    ? trans.__('%1 (host %2)', message, host)
                    : message}
                </small>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

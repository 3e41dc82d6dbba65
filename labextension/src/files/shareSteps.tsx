// What sharing a folder does on each host.

import React from 'react';

import { IHostShare } from '../rest/api';
import { hostRanges } from '../ui/hostRanges';
import { trans } from '../ui/translation';

/** What is done on each host, or why it can't be; hosts with the same are listed together. */
export function ShareSteps({ hosts }: { hosts: IHostShare[] }): JSX.Element {
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
          <span>{hostNames(same)}</span>
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
function hostNames(hosts: IHostShare[]): string {
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

// What sharing a folder does on each host.

import React from 'react';

import { IHostShare } from '../rest/api';
import { grouped } from '../ui/grouped';
import { hostRanges } from '../ui/hostRanges';
import { problemLine } from '../ui/text';
import { trans } from '../ui/translation';

/** What is done on each host, or why it can't be; hosts with the same are listed together. */
export function ShareSteps({ hosts }: { hosts: IHostShare[] }) {
  return (
    <ul className="jp-tpu-Paths">
      {grouped(hosts.filter(whatIsDone), whatIsDone).map(([text, same]) => (
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
    return problemLine(problem);
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
  return grouped(hosts, ({ tpu }) => tpu)
    .map(([tpu, same]) => {
      const numbers = same.map(({ host }) => host);
      return numbers.length === 1
        ? trans.__('Host %1 of %2', numbers[0], tpu)
        : trans.__('Hosts %1 of %2', hostRanges(numbers), tpu);
    })
    .join(' · ');
}

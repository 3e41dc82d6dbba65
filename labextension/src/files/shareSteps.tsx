// What sharing a folder does on each host.

import React from 'react';

import { grouped } from '../language/grouped';
import { hostRanges } from '../language/hostRanges';
import { problemLine } from '../language/text';
import { trans } from '../language/translation';
import { IHostShare, IShareResult } from '../rest/api';
import { confirm, show } from '../ui/confirm';

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

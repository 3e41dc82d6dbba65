// Profiles in words.

import { grouped } from '../language/grouped';
import { hostRanges } from '../language/hostRanges';
import { problemLine } from '../language/text';
import { trans } from '../language/translation';
import { IProblem, IProfile } from '../rest/api';

/** Each problem once, with the hosts that have it. */
export function hostsByProblem(
  answers: { host: number; problem: IProblem | null }[]
): [string, number[]][] {
  return grouped(
    answers.filter(({ problem }) => problem),
    ({ problem }) => problemLine(problem)
  ).map(([text, same]) => [text, [...new Set(same.map(({ host }) => host))]]);
}

/** A sentence for hosts without a trace, with a program that could not be traced, or where no cell ran. */
export function untraced({ traces }: IProfile): string[] {
  const done = traces.filter(({ state }) => state === 'done');
  const named = traces.filter(
    ({ host, state }) =>
      state === 'failed' || !done.some(other => other.host === host)
  );
  const idle = traces.filter(trace => trace.kernel_idle);
  return [
    ...hostsByProblem(named).map(([text, hosts]) =>
      hosts.length === 1
        ? trans.__('Host %1 was not traced: %2', hosts[0], text)
        : trans.__('Hosts %1 were not traced: %2', hostRanges(hosts), text)
    ),
    ...[...new Set(idle.map(({ host }) => host))].map(host =>
      trans.__(
        'The kernel on host %1 was idle, so nothing ran. Trace while a cell runs.',
        host
      )
    )
  ];
}

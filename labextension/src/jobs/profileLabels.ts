// Profiles in words.

import { IProblem, IProfile } from '../rest/api';
import { hostRanges } from '../ui/hostRanges';
import { trans } from '../ui/translation';

/** Each problem once, with the hosts that have it. */
export function hostsByProblem(
  answers: { host: number; problem: IProblem | null }[]
): [string, number[]][] {
  const hosts = new Map<string, Set<number>>();
  for (const { host, problem } of answers) {
    if (problem) {
      const text = `${problem.message} ${problem.hint}`.trim();
      hosts.set(text, (hosts.get(text) ?? new Set()).add(host));
    }
  }
  return [...hosts].map(([text, same]) => [text, [...same]]);
}

/** A sentence for hosts without a trace, or with a program that could not be traced. */
export function untraced({ traces }: IProfile): string[] {
  const done = traces.filter(({ state }) => state === 'done');
  const named = traces.filter(
    ({ host, state }) =>
      state === 'failed' || !done.some(other => other.host === host)
  );
  return hostsByProblem(named).map(([text, hosts]) =>
    hosts.length === 1
      ? trans.__('Host %1 was not traced: %2', hosts[0], text)
      : trans.__('Hosts %1 were not traced: %2', hostRanges(hosts), text)
  );
}

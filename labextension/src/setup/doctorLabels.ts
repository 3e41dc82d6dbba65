// What the check of a TPU found, in words.

import { IFinding } from '../rest/api';
import { trans } from '../ui/translation';

/** A finding, and the hosts on which it is the same. */
export interface IFindingGroup {
  finding: IFinding;
  hosts: number[];
}

/** What needs attention first. */
const ORDER: IFinding['state'][] = ['problem', 'warning', 'unknown', 'ok'];

/** The same finding of several hosts is one; what needs attention comes first. */
export function findingGroups(findings: IFinding[]): IFindingGroup[] {
  const groups = new Map<string, IFindingGroup>();
  for (const finding of findings) {
    const { check, state, message, hint } = finding;
    const key = JSON.stringify([check, state, message, hint]);
    const group = groups.get(key) ?? { finding, hosts: [] };
    if (finding.host !== null) {
      group.hosts.push(finding.host);
    }
    groups.set(key, group);
  }
  return [...groups.values()].sort(
    (a, b) => ORDER.indexOf(a.finding.state) - ORDER.indexOf(b.finding.state)
  );
}

export function findingStateLabel(state: IFinding['state']): string {
  const labels: { [state: string]: string } = {
    problem: trans.__('Problem'),
    warning: trans.__('Warning'),
    unknown: trans.__('Unknown')
  };
  return labels[state] ?? trans.__('OK');
}

/** "Host 1:", "Hosts 0–2, 5:". */
export function hostNumbers(hosts: number[]): string {
  return hosts.length === 1
    ? trans.__('Host %1:', hosts[0])
    : trans.__('Hosts %1:', hostRanges(hosts));
}

/** "0–2, 5" */
export function hostRanges(hosts: number[]): string {
  const runs: [number, number][] = [];
  for (const host of hosts) {
    const last = runs[runs.length - 1];
    if (last && host === last[1] + 1) {
      last[1] = host;
    } else {
      runs.push([host, host]);
    }
  }
  return runs
    .map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`))
    .join(', ');
}

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

// What the check of a TPU found, in words.

import { grouped } from '../language/grouped';
import { trans } from '../language/translation';
import { IFinding } from '../rest/api';

/** A finding, and the hosts on which it is the same. */
export interface IFindingGroup {
  finding: IFinding;
  hosts: number[];
}

/** What needs attention first. */
const ORDER: IFinding['state'][] = ['problem', 'warning', 'unknown', 'ok'];

/** The same finding of several hosts is one; what needs attention comes first. */
export function findingGroups(findings: IFinding[]): IFindingGroup[] {
  return grouped(findings, ({ check, state, message, hint }) =>
    JSON.stringify([check, state, message, hint])
  )
    .map(([, same]) => ({
      finding: same[0],
      hosts: same.flatMap(({ host }) => (host === null ? [] : [host]))
    }))
    .sort(
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

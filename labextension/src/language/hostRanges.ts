// Numbers of hosts in words.

import { trans } from './translation';

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

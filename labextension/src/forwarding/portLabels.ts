// What the panel says of tunnels and web apps.

import { trans } from '../language/translation';
import { IApp, ITunnel } from '../rest/api';

/** The state of a tunnel or a web app. */
export function portLabel(state: ITunnel['state'] | IApp['state']): string {
  return {
    elsewhere: trans.__('open in another process'),
    'needs-attention': trans.__('needs attention'),
    open: trans.__('open'),
    taken: trans.__('local port in use'),
    waiting: trans.__('waiting for the connection')
  }[state];
}

/** "1.2 MB sent, 30 MB received"; "" for no traffic. */
export function trafficLabel(sent: number, received: number): string {
  return sent + received > 0
    ? trans.__('%1 sent, %2 received', sizeLabel(sent), sizeLabel(received))
    : '';
}

/** A number of bytes, in decimal units. */
export function sizeLabel(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

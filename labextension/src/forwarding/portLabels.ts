// What the panel says of tunnels and web apps.

import { IQuestion } from '../language/text';
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

/** Why it is not a port; "" if it is one. */
export function portProblem(text: string): string {
  const port = /^\d+$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535
    ? ''
    : trans.__('Enter a number from 1 to 65535.');
}

/** What is asked before a web app closes whose server on the host ends with it; null: nothing. */
export function closeAppQuestion({ kind, name }: IApp): IQuestion | null {
  return kind === 'tensorboard'
    ? {
        title: trans.__('Close %1?', name),
        text: trans.__('TensorBoard stops on the host. Your logs are kept.'),
        accept: trans.__('Close')
      }
    : null;
}

/** What is asked before a tunnel closes that is in use; null: nothing. */
export function closeTunnelQuestion(tunnel: ITunnel): IQuestion | null {
  const { connections, port } = tunnel;
  return connections > 0
    ? {
        title: trans.__('Close the tunnel to port %1?', port),
        text: trans._n(
          'This ends %1 connection.',
          'This ends %1 connections.',
          connections
        ),
        accept: trans.__('Close')
      }
    : null;
}

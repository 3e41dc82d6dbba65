// Who listens at the address of a server. Its token allows to open a shell, so it is never sent to another
// user of this computer, who may listen there after the server has ended: as `fleet/servers.py` does.

import { readFileSync } from 'node:fs';

import { IServer } from './client';

/** The state's number in /proc/net/tcp. */
const LISTENING = '0A';
const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/;
/** The system's: whoever is root can read the token anyway. */
const ROOT = 0;

/** Whether the token of *server* may be sent to its address now. */
export function isOwn(server: IServer): boolean {
  const { pid } = server;
  try {
    // Throws if there is no such process of this user. 0: it may be on another computer.
    return (!pid || process.kill(pid, 0)) && !isTaken(server);
  } catch {
    return false;
  }
}

/**
 * Whether another user listens at the address of *server*, if that is on this computer.
 *
 * *tables*: where Linux lists its listeners. Other systems don't say who they are.
 */
export function isTaken(
  { pid, url }: IServer,
  tables = ['/proc/net/tcp', '/proc/net/tcp6']
): boolean {
  const { hostname, port, protocol } = new URL(url);
  if (!pid && !LOOPBACK.test(hostname)) {
    return false;
  }
  const number = Number(port || (protocol === 'https:' ? 443 : 80));
  const own = [process.getuid?.(), ROOT];
  return tables.some(table =>
    listeners(table, number).some(uid => !own.includes(uid))
  );
}

/** The users who listen at a port; [] also where the system does not say. */
function listeners(table: string, port: number): number[] {
  let text: string;
  try {
    text = readFileSync(table, 'latin1');
  } catch {
    return [];
  }
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return text
    .split('\n')
    .map(line => line.trim().split(/ +/))
    .filter(
      ([, local, , state]) => state === LISTENING && local.endsWith(`:${hex}`)
    )
    .map(columns => Number(columns[7]));
}

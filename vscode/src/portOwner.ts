// Who listens at the address of a server. Its token allows to open a shell, so it is never sent to another
// user of this computer, who may listen there after the server has ended: as `fleet/servers.py` does.

import { readFileSync } from 'node:fs';

/** Where a server is. *pid*: 0 if its address was typed. */
interface IPlace {
  pid: number;
  url: string;
}

/** The state's number in /proc/net/tcp. */
const LISTENING = '0A';
const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/;
/** The system's: whoever is root can read the token anyway. */
const ROOT = 0;

/** Whether the token of *server* may be sent to its address now. */
export function isOwn(server: IPlace): boolean {
  const { pid } = server;
  try {
    // Throws if there is no such process of this user. 0: it may be on another computer.
    return (!pid || process.kill(pid, 0)) && !isTaken(server);
  } catch {
    return false;
  }
}

/**
 * Whether another user listens at the address of *server*, if that is on this computer. A server whose
 * address the user has typed may be another user's, but stays the same one's.
 *
 * *tables*: where Linux lists its listeners. Other systems don't say who they are.
 */
export function isTaken(
  { pid, url }: IPlace,
  tables = ['/proc/net/tcp', '/proc/net/tcp6']
): boolean {
  const { hostname, port, protocol } = new URL(url);
  if (!pid && !LOOPBACK.test(hostname)) {
    return false;
  }
  const number = Number(port || (protocol === 'https:' ? 443 : 80));
  const found = tables.flatMap(table => listeners(table, number));
  const uids = answering(hostname, found);
  if (!pid && uids.length > 0 && !typed.has(url)) {
    typed.set(url, uids);
  }
  const own = [process.getuid?.(), ROOT, ...((!pid && typed.get(url)) || [])];
  return uids.some(uid => !own.includes(uid));
}

/** Who listened at an address that the user has typed when it was first used. */
const typed = new Map<string, number[]>();

/** An address as Linux lists it, and the user who listens there. */
type Listener = [string, number];

const ANY = ['00000000', '0'.repeat(32)];
const IPV4 = ['0100007F', '0000000000000000FFFF00000100007F'];
const IPV6 = ['00000000000000000000000001000000'];
const ADDRESSES: { [hostname: string]: string[][] } = {
  '127.0.0.1': [IPV4],
  '[::1]': [IPV6],
  localhost: [IPV4, IPV6]
};

/** The users who may answer at *hostname*: who listens at all addresses does if nobody else does. */
function answering(hostname: string, listeners: Listener[]): number[] {
  const at = (addresses: string[]) =>
    listeners.filter(([one]) => addresses.includes(one));
  const found = ADDRESSES[hostname]?.map(exact =>
    at(exact).length > 0 ? at(exact) : at(ANY)
  );
  return (found?.flat() ?? listeners).map(([, uid]) => uid);
}

/** Who listens at a port; [] also where the system does not say. */
function listeners(table: string, port: number): Listener[] {
  let text: string;
  try {
    text = readFileSync(table, 'latin1');
  } catch {
    return [];
  }
  const hex = `:${port.toString(16).toUpperCase().padStart(4, '0')} `;
  return text
    .split('\n')
    .filter(line => line.includes(hex))
    .map(line => line.trim().split(/ +/))
    .filter(
      ([, local, , state]) => state === LISTENING && `${local} `.endsWith(hex)
    )
    .map(([, local, , , , , , uid]) => [local.split(':')[0], Number(uid)]);
}

// The address at which this browser reaches an app.

import { trans } from '../language/translation';
import { IAppVisit } from '../rest/api';
import { Failure } from '../rest/failure';

/** Milliseconds to wait for the port that serves apps. */
const PROBE_TIMEOUT = 8000;

/**
 * The app's own address or, for a browser that can't reach it because it runs on another machine, the
 * one under Jupyter's own where that is allowed. Throws `Failure` if there is none.
 */
export async function reachableAddress(
  visit: IAppVisit,
  { hostname, port: jupyterPort }: Pick<Location, 'hostname' | 'port'>
): Promise<string> {
  const { port } = new URL(visit.probe);
  if (!isLoopback(hostname)) {
    if (visit.server_path) {
      return visit.server_path;
    }
    throw new Failure(
      trans.__(
        'Web apps on a host can only be opened by a browser on the machine that runs Jupyter, but Jupyter is open at %1.',
        hostname
      ),
      'UNREACHABLE',
      trans.__(
        'Forward both ports to your computer and open Jupyter at localhost: `ssh -L %1:localhost:%1 -L %2:localhost:%2 %3`. On JupyterHub, you can allow trusted apps under Jupyter’s own address with `c.JupyterTPU.proxy_ports`.',
        jupyterPort || '8888',
        port,
        hostname
      )
    );
  }
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), PROBE_TIMEOUT);
  try {
    await fetch(visit.probe, {
      mode: 'no-cors',
      cache: 'no-store',
      credentials: 'omit',
      signal: abort.signal
    });
    return visit.url;
  } catch {
    if (visit.server_path) {
      return visit.server_path;
    }
    throw new Failure(
      trans.__('Your browser can’t reach port %1, which serves apps.', port),
      'UNREACHABLE',
      trans.__(
        'If Jupyter runs on another machine and you forward its port, forward this port too: `ssh -L %1:localhost:%1 …`.',
        port
      )
    );
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the browser, which opened Jupyter at *hostname*, seems to run on the server's machine. */
export function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(\.\d{1,3}){3}$/.test(hostname)
  );
}

// At which address this browser gets to an app.

import { TranslationBundle } from '@jupyterlab/translation';

import { IAppVisit } from '../api';
import { isLoopback } from './target';
import { Failure } from '../model/client';

/** Milliseconds in which the app's port must answer the page at all. */
const PROBE_TIMEOUT = 8000;

/**
 * The app's own address or, for a browser that can't reach it because it runs on another machine, the
 * one beneath Jupyter's where that is allowed. Throws `Failure` if there is none.
 */
export async function reachableAddress(
  visit: IAppVisit,
  { hostname, port: jupyterPort }: Pick<Location, 'hostname' | 'port'>,
  trans: TranslationBundle
): Promise<string> {
  const { port } = new URL(visit.probe);
  if (!isLoopback(hostname)) {
    if (visit.beneath) {
      return visit.beneath;
    }
    throw new Failure(
      trans.__(
        'JupyterLab is open at %1, but pages of hosts can only be opened by a browser on the machine that Jupyter runs on.',
        hostname
      ),
      'UNREACHABLE',
      trans.__(
        'Forward both ports to your machine and open JupyterLab at localhost: `ssh -L %1:localhost:%1 -L %2:localhost:%2 %3`. Behind a Hub, and if you trust the page, it can be allowed beneath Jupyter’s own address: `c.JupyterTPU.proxy_ports`.',
        jupyterPort || '8888',
        port,
        hostname
      )
    );
  }
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), PROBE_TIMEOUT);
  try {
    await fetch(visit.probe, {
      mode: 'no-cors',
      cache: 'no-store',
      credentials: 'omit',
      signal: patience.signal
    });
    return visit.url;
  } catch {
    if (visit.beneath) {
      return visit.beneath;
    }
    throw new Failure(
      trans.__('The browser does not reach port %1, at which apps are.', port),
      'UNREACHABLE',
      trans.__(
        'If Jupyter runs on another machine and you forward its port, forward this one, too: `ssh -L %1:localhost:%1 …`.',
        port
      )
    );
  } finally {
    clearTimeout(timer);
  }
}

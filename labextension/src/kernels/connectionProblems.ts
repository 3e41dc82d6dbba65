// Notifications of why the page can't connect to kernels although the server answers.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { trans } from '../language/translation';
import { notify } from '../ui/notify';
import { findKernelWidget } from './kernelWidget';
import { ConnectionProblem, KernelReplay } from './replay';

/** One notification for each problem, as long as a connection has it. */
export function notifyOfConnectionProblems(
  replay: KernelReplay,
  shell: JupyterFrontEnd.IShell,
  settings: ServerConnection.ISettings
): void {
  const shown = new Map<ConnectionProblem, string>();

  const show = (problem: ConnectionProblem): string =>
    problem === 'denied'
      ? notify.error(
          trans.__(
            'The Jupyter server refused this page’s connection to a kernel. Log in again, or ask for permission. The page reconnects automatically.'
          ),
          {
            label: trans.__('Log In'),
            callback: event => {
              event.preventDefault(); // the notification stays until it is connected
              window.open(URLExt.join(settings.baseUrl, 'login'));
            }
          }
        )
      : notify.error(
          trans.__(
            'Can’t connect to a kernel: the Jupyter server answers, but WebSocket connections fail. A proxy or firewall between this browser and the server may block them.'
          ),
          {
            label: trans.__('Reconnect'),
            callback: () => {
              for (const [clientId, problem] of [...replay.problems]) {
                if (problem === 'blocked') {
                  void findKernelWidget(shell, clientId)
                    ?.sessionContext.session?.kernel?.reconnect()
                    .catch(() => undefined); // shown again
                }
              }
            }
          }
        );

  replay.connectionChanged.connect(() => {
    for (const kind of ['blocked', 'denied'] as const) {
      const isThere = [...replay.problems.values()].includes(kind);
      if (isThere && !shown.has(kind)) {
        shown.set(kind, show(kind));
      } else if (!isThere && shown.has(kind)) {
        Notification.dismiss(shown.get(kind));
        shown.delete(kind);
      }
    }
  });
}

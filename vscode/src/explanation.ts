// Why there is no server, and what to do, in a sentence or two.

import { trans } from '../../labextension/src/language/translation';
import { Session } from './session';

export function explanation({ message, python, state }: Session): string {
  switch (state) {
    case 'idle':
      return trans.__(
        'Nothing is started in a workspace that you do not trust.'
      );
    case 'searching':
      return trans.__('Looking for the Jupyter server …');
    case 'starting':
      return trans.__('Starting a Jupyter server …');
    case 'stopped':
      return trans.__('No Jupyter server with jupyter-tpu is running.');
    case 'missing':
      return trans.__(
        'jupyter-tpu is not installed in %1. Install it with: %1 -m pip install jupyter-tpu',
        python
      );
    case 'old':
      return trans.__(
        'The jupyter-tpu of %1 is older than this extension. Update it with: %1 -m pip install --upgrade jupyter-tpu',
        python
      );
    case 'broken':
      return trans.__(
        '%1 can’t be run (%2). Choose a Python with jupyter-tpu.',
        python,
        message
      );
    case 'failed':
      return message;
    case 'running':
      return '';
  }
}

/** What is said of a server at whose address another user listens; see `portOwner`. */
export function portTaken(url: string): string {
  return trans.__(
    'Another user’s program listens at %1 now, where your Jupyter server was. Nothing is sent to it.',
    new URL(url).host
  );
}

/**
 * Why this window can't open one on a host; "" if it can, with the Remote - SSH extension.
 *
 * *remote*: where its extensions run, if that is not this computer.
 */
export function windowObstacle(
  web: boolean,
  remote: string | undefined
): string {
  if (web) {
    return trans.__(
      'VS Code in a browser can’t open a window on a host. Use VS Code for the desktop, or the command “TPU: Open Terminal on Host”.'
    );
  }
  return remote
    ? trans.__(
        'This window is on another machine (%1), and so is the SSH configuration with your TPUs. Use a local window, or the command “TPU: Open Terminal on Host”.',
        remote
      )
    : '';
}

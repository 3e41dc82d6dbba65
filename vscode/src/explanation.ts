// Why there is no server, and what to do, in a sentence or two.

import { Session } from './session';

export function explanation({ message, python, state }: Session): string {
  switch (state) {
    case 'idle':
      return 'Nothing is started in a workspace that you do not trust.';
    case 'searching':
      return 'Looking for the Jupyter server …';
    case 'starting':
      return 'Starting a Jupyter server …';
    case 'stopped':
      return 'No Jupyter server with jupyter-tpu is running.';
    case 'missing':
      return `jupyter-tpu is not installed in ${python}. Install it with: ${python} -m pip install jupyter-tpu`;
    case 'old':
      return `The jupyter-tpu of ${python} is older than this extension. Update it with: ${python} -m pip install --upgrade jupyter-tpu`;
    case 'broken':
      return `${python} can’t be run (${message}). Choose a Python with jupyter-tpu.`;
    case 'failed':
      return message;
    case 'running':
      return '';
  }
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
    return 'VS Code in a browser can’t open a window on a host. Use VS Code for the desktop.';
  }
  return remote
    ? `This window is on another machine (${remote}), and so is the SSH configuration with your TPUs. Use a local window.`
    : '';
}

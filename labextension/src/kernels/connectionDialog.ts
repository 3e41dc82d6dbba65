// Closes JupyterLab's dialog "Server Connection Error" when the server answers again. JupyterLab opens
// it when the server was away, and leaves it open over a page on which all is well.

import { Dialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';

/** Milliseconds between two checks. */
const CHECK = 500;

/** trans: JupyterLab's own translations, in whose words the dialog is. */
export function closeConnectionDialog(
  settings: ServerConnection.ISettings,
  trans: TranslationBundle
): void {
  const title = trans.__('Server Connection Error');
  Dialog.tracker.widgetAdded.connect(
    (_, dialog) => void closeWhenConnected(dialog, title, settings)
  );
}

async function closeWhenConnected(
  dialog: Dialog<unknown>,
  title: string,
  settings: ServerConnection.ISettings
): Promise<void> {
  const url = URLExt.join(settings.baseUrl, 'api');
  await dialog.ready;
  const header = dialog.node.querySelector('.jp-Dialog-header');
  while (!dialog.isDisposed) {
    await new Promise(resolve => setTimeout(resolve, CHECK));
    if (!header?.textContent) {
      continue; // it is not rendered yet
    }
    if (header.textContent !== title) {
      return;
    }
    try {
      const { status } = await ServerConnection.makeRequest(url, {}, settings);
      if (status < 500) {
        dialog.reject();
      }
    } catch {
      // It is still away.
    }
  }
}

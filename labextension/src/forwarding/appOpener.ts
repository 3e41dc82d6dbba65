// Opens a web app of a host: for a tab that frames it, or in a browser window.

import { Notification } from '@jupyterlab/apputils';

import { trans } from '../language/translation';
import { IAppTarget, targetKey, targetOf } from '../model/appTarget';
import { TPUModel } from '../model/model';
import { IOperation } from '../rest/api';
import { failureLine } from '../rest/failureText';
import { refOf } from '../rest/tpuRef';
import { notify } from '../ui/notify';
import { reachableAddress } from './address';

/** An open app, and an address at which this browser reaches it, once. */
export interface IOpenedApp {
  id: string;
  url: string;
  /** Answers whether a frame of the app can store data; "" under Jupyter's address, where it can. */
  storageCheck: string;
}

export class AppOpener {
  constructor(private _model: TPUModel) {}

  /**
   * Opens an app. Throws `Failure`.
   *
   * @param framedBy the origin of the page that frames it; "" for a window
   * @param restart whether to look on the host even for an app that is known to be open
   * @param allowMissing whether TensorBoard may show a folder that does not exist yet
   */
  async open(
    target: IAppTarget,
    framedBy: string,
    { restart = false, allowMissing = false } = {},
    onProgress: (operation: IOperation) => void = () => undefined
  ): Promise<IOpenedApp> {
    const { host, logdir, name, path, port } = target;
    const tpu = refOf(target.tpu);
    const model = this._model;
    let app = model
      .apps(tpu)
      .find(one => targetKey(targetOf(one)) === targetKey(target));
    if (!app || restart) {
      app = logdir
        ? await model.openTensorBoard(
            tpu,
            { logdir, host, allow_missing: allowMissing },
            onProgress
          )
        : port
          ? await model.client.apps.open(tpu, { port, host, path, name })
          : await model.client.ray.openDashboard(tpu);
      model.keep({ app });
    }
    const visit = await model.client.visitApp(app.id, {
      framed_by: framedBy
    });
    const url = await reachableAddress(visit, window.location);
    const storageCheck = url === visit.url ? visit.storage_check : '';
    return { id: app.id, url, storageCheck };
  }

  /** Opens an app in a browser window; a notification says why, if that fails. */
  async openWindow(target: IAppTarget): Promise<void> {
    // Opened at once: browsers block windows that are opened later.
    const opened = window.open('about:blank', '_blank');
    if (!opened) {
      Notification.error(
        trans.__(
          'The browser blocked the window of %1. Allow pop-ups for this page.',
          target.name
        )
      );
      return;
    }
    opened.document.title = target.name;
    opened.document.body.textContent = trans.__('Opening %1…', target.name);
    try {
      const { url } = await this.open(target, '');
      opened.opener = null;
      opened.location.replace(url);
    } catch (error) {
      opened.close();
      const what = trans.__('%1 could not be opened', target.name);
      notify.error(`${what}: ${failureLine(error)}`);
    }
  }
}

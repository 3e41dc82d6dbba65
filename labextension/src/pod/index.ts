// The plugin for what pod kernels show: output that differs by host, in tabs, and what can be done when
// the hosts are out of step. Other frontends show the HTML or the text beside it.

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { loadTranslation } from '../language/translation';
import { OUT_OF_STEP, removeOnStart } from './restartOffers';

/** Given by the conductor: jupyter_tpu/on_host/agent/pod. */
const HOSTS = 'application/vnd.jupyter-tpu.hosts+json';

/** Fills an element with what a model says. */
type Fill = (node: HTMLElement, model: IRenderMime.IMimeModel) => Promise<void>;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:pod-output',
  description:
    'Shows the output of a TPU’s hosts in tabs, and buttons when they are out of step.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    registry: IRenderMimeRegistry,
    translator: ITranslator | null
  ) => {
    loadTranslation(translator);
    const add = (mimeType: string, fill: Fill) =>
      registry.addFactory(
        {
          safe: true, // all of it is text
          mimeTypes: [mimeType],
          createRenderer: () => new Rendered(fill)
        },
        0
      );
    add(HOSTS, async (node, { data }) => {
      const { hostTabs } = await import('./hostTabs');
      node.replaceChildren(hostTabs(data, data[HOSTS]));
    });
    add(OUT_OF_STEP, async node => {
      const { restartButtons } = await import('./restartButtons');
      node.replaceChildren(restartButtons(app));
    });
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: panel => removeOnStart(panel as never)
    });
  }
};

class Rendered extends Widget implements IRenderMime.IRenderer {
  constructor(private _fill: Fill) {
    super();
    this.addClass('jp-tpu-PodOutput');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    return this._fill(this.node, model);
  }
}

export default [plugin];

// A line at the top of notebooks and consoles about the TPU that they use.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { BoxPanel, Widget } from '@lumino/widgets';

import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { element, textButton } from '../ui/element';
import { INotificationAction } from '../ui/notify';
import { kernelWidgets } from './kernelWidget';

/** JupyterLab's place between a document's toolbar and its content. */
type Headed = Widget & { contentHeader?: BoxPanel };

/** Shows the lines that *look* gives it, each time when something has changed. */
export class NotebookNotices {
  constructor(
    private _shell: JupyterFrontEnd.IShell,
    model: TPUModel,
    private _look: (notices: NotebookNotices) => void
  ) {
    model.stateChanged.connect(this.update, this);
    _shell.currentChanged?.connect(this.update, this); // another notebook may be open
  }

  update(): void {
    this._shown = new Set();
    this._look(this);
    for (const [widget, line] of this._lines) {
      if (!this._shown.has(widget)) {
        line.dispose();
        this._lines.delete(widget);
      }
    }
  }

  /** Shows *text*, with a button, in the documents whose kernels run on a TPU. */
  show(tpu: ITPU, text: string, action: INotificationAction): void {
    const kernelspecs = tpu.environments.map(({ kernelspec }) => kernelspec);
    for (const widget of kernelWidgets(this._shell)) {
      const { contentHeader }: Headed = widget;
      const name = widget.sessionContext.session?.kernel?.name ?? '';
      // Kernels with chips of their own have a kernelspec whose name is longer.
      if (
        contentHeader &&
        kernelspecs.some(spec => spec && `${name}-`.startsWith(`${spec}-`))
      ) {
        this._shown.add(widget);
        const before = this._lines.get(widget);
        if (before?.node.dataset.text !== text) {
          before?.dispose();
          const line = new Line(text, action);
          contentHeader.addWidget(line);
          this._lines.set(widget, line);
        }
      }
    }
  }

  private _lines = new Map<Widget, Line>();
  private _shown = new Set<Widget>();
}

class Line extends Widget {
  constructor(text: string, { label, callback }: INotificationAction) {
    super();
    this.addClass('jp-tpu-Notice');
    this.node.setAttribute('role', 'status');
    this.node.dataset.text = text;
    this.node.append(
      element('span', { title: text }, text),
      textButton(label, 'jp-tpu-Link', callback)
    );
  }
}

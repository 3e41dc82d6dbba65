// A line at the top of notebooks and consoles about the TPU that they use.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { BoxPanel, Widget } from '@lumino/widgets';

import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { INotificationAction } from '../ui/notify';
import { IKernelWidget } from './kernelWidget';

interface IDocument extends IKernelWidget {
  /** JupyterLab's place between a document's toolbar and its content. */
  contentHeader: BoxPanel;
}

type Document = Widget & IDocument;

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
    this._wanted = new Set();
    this._look(this);
    for (const [widget, line] of this._lines) {
      if (!this._wanted.has(widget)) {
        line.dispose();
        this._lines.delete(widget);
      }
    }
  }

  /** Shows *text*, with a button, in the documents whose kernels run on a TPU. */
  show(tpu: ITPU, text: string, action: INotificationAction): void {
    const kernelspecs = tpu.environments.map(({ kernelspec }) => kernelspec);
    for (const widget of this._documents()) {
      const name = widget.sessionContext.session?.kernel?.name ?? '';
      // Kernels with chips of their own have a kernelspec whose name is longer.
      if (kernelspecs.some(spec => spec && `${name}-`.startsWith(`${spec}-`))) {
        this._wanted.add(widget);
        const before = this._lines.get(widget);
        if (before?.node.dataset.text !== text) {
          before?.dispose();
          const line = new Line(text, action);
          widget.contentHeader.addWidget(line);
          this._lines.set(widget, line);
        }
      }
    }
  }

  private _documents(): Document[] {
    const widgets: Iterable<Widget & Partial<IDocument>> =
      this._shell.widgets('main');
    return [...widgets].filter(
      (widget): widget is Document =>
        !!widget.sessionContext && !!widget.contentHeader
    );
  }

  private _lines = new Map<Document, Line>();
  private _wanted = new Set<Document>();
}

class Line extends Widget {
  constructor(text: string, { label, callback }: INotificationAction) {
    super();
    this.addClass('jp-tpu-Notice');
    this.node.setAttribute('role', 'status');
    this.node.dataset.text = text;
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'jp-tpu-Link';
    button.textContent = label;
    button.onclick = callback;
    const shown = document.createElement('span');
    shown.textContent = shown.title = text;
    this.node.append(shown, button);
  }
}

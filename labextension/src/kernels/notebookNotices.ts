// Lines at the top of notebooks and consoles.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { BoxPanel, Widget } from '@lumino/widgets';

import { TPUModel } from '../model/model';
import { ITPU } from '../rest/api';
import { element, textButton } from '../ui/element';
import { INotificationAction } from '../ui/notify';
import { kernelWidgets } from './kernelWidget';

/** JupyterLab's place between a document's toolbar and its content. */
type Headed = Widget & { contentHeader?: BoxPanel };

/** Shows a line with buttons in a document. */
type ShowLine = (
  widget: Widget,
  text: string,
  actions: INotificationAction[]
) => void;

/** Whether kernels of the kernelspec *name* run on a TPU. */
export function runsOn(name: string, { environments }: ITPU): boolean {
  // Kernels with chips of their own, and pod kernels, have a kernelspec whose name is longer.
  return environments.some(
    ({ kernelspec }) => kernelspec && `${name}-`.startsWith(`${kernelspec}-`)
  );
}

/** One line in each of some documents. */
export class HeadLines {
  /** Shows the lines that *look* gives it, and no others. */
  update(look: (show: ShowLine) => void): void {
    const shown = new Set<Widget>();
    look((widget: Headed, text, actions) => {
      const { contentHeader } = widget;
      if (!contentHeader) {
        return;
      }
      shown.add(widget);
      const before = this._lines.get(widget);
      const key = [text, ...actions.map(({ label }) => label)].join('\n');
      if (before?.node.dataset.key !== key) {
        before?.dispose();
        const line = new Line(text, actions);
        line.node.dataset.key = key;
        contentHeader.addWidget(line);
        this._lines.set(widget, line);
      }
    });
    for (const [widget, line] of this._lines) {
      if (!shown.has(widget)) {
        line.dispose();
        this._lines.delete(widget);
      }
    }
  }

  private _lines = new Map<Widget, Line>();
}

/** Shows the lines about TPUs that *look* gives it, each time when something has changed. */
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
    this._lines.update(show => {
      this._show = show;
      this._look(this);
    });
  }

  /** Shows *text*, with a button, in the documents whose kernels run on a TPU. */
  show(tpu: ITPU, text: string, action: INotificationAction): void {
    for (const widget of kernelWidgets(this._shell)) {
      if (runsOn(widget.sessionContext.session?.kernel?.name ?? '', tpu)) {
        this._show?.(widget, text, [action]);
      }
    }
  }

  private _lines = new HeadLines();
  private _show?: ShowLine;
}

class Line extends Widget {
  constructor(text: string, actions: INotificationAction[]) {
    super();
    this.addClass('jp-tpu-Notice');
    this.node.setAttribute('role', 'status');
    this.node.append(
      element('span', { title: text }, text),
      ...actions.map(({ label, callback }) =>
        textButton(label, 'jp-tpu-Link', callback)
      )
    );
  }
}

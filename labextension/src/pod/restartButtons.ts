// What can be done when the hosts of a pod kernel are out of step, below the cell that says so.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Widget } from '@lumino/widgets';

import { trans } from '../language/translation';
import { attempt } from '../ui/attempt';
import { element, textButton } from '../ui/element';

/** JupyterLab's own; the first one is also that of consoles. */
const RESTART = 'kernelmenu:restart';
const RESTART_NOTEBOOK = 'notebook:restart-kernel';
const RUN_ABOVE = 'notebook:run-all-above';

/** A line with buttons. JupyterLab asks before it restarts a kernel. */
export function restartButtons(app: JupyterFrontEnd): HTMLElement {
  const { commands } = app;
  const node = element('div', { class: 'jp-tpu-OutOfStep' });
  const button = (label: string, run: () => Promise<unknown>) =>
    textButton(label, 'jp-mod-styled', () => {
      const document = documentOf(app, node);
      if (document) {
        // Commands are for the current document, and for the cell that has the focus.
        app.shell.activateById(document.id);
        void attempt(run());
      }
    });
  const text = trans.__(
    'Restart the kernel to run cells again. To run cells anyway, run %hosts continue first.'
  );
  node.append(
    element('span', {}, text),
    button(trans.__('Restart on All Hosts'), () =>
      commands.execute(
        commands.hasCommand(RESTART) ? RESTART : RESTART_NOTEBOOK
      )
    )
  );
  if (commands.hasCommand(RUN_ABOVE)) {
    node.append(
      button(trans.__('Restart and Run Above'), async () => {
        if (await commands.execute(RESTART_NOTEBOOK)) {
          await commands.execute(RUN_ABOVE);
        }
      })
    );
  }
  return node;
}

/** The notebook or console that an element is in. */
function documentOf(app: JupyterFrontEnd, node: Node): Widget | undefined {
  return [...app.shell.widgets('main')].find(widget =>
    widget.node.contains(node)
  );
}

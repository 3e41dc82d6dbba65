// What notebooks and consoles on TPUs can do with their variables: two entries of the kernel menu, and
// the lines above their cells. Loaded when there is a TPU.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import { IPanelActions } from '../actions/panelActions';
import { kernelWidgets } from '../kernels/kernelWidget';
import { trans } from '../language/translation';
import { StoredIds } from '../state/storedIds';
import { attempt } from '../ui/attempt';
import { confirm } from '../ui/confirm';
import { NO_ARGUMENTS } from '../ui/described';
import { continueOn, tpuOf } from './continueOn';
import { KernelDocument, outcomeOf } from './moves';
import { SessionOffers } from './offers';
import { restoredText } from './sessionLabels';

/** Named in the menus of schema/commands.json. */
const CONTINUE = 'tpu:continue-on';
const RESTART = 'tpu:restart-with-variables';

export function addToNotebooks(
  app: JupyterFrontEnd,
  actions: IPanelActions,
  palette: ICommandPalette | null
): void {
  const { commands, serviceManager, shell } = app;
  const { model } = actions;
  const offers = new SessionOffers(
    app,
    actions,
    new StoredIds(
      window.localStorage,
      `jupyter-tpu:declined-sessions:${serviceManager.serverSettings.baseUrl}`
    )
  );
  /** The document in front, if its kernel runs on a TPU. */
  const current = (): KernelDocument | undefined => {
    const widget = kernelWidgets(shell).find(
      one => one === shell.currentWidget
    ) as KernelDocument | undefined;
    return widget && tpuOf(widget, model.tpus) ? widget : undefined;
  };
  const add = (
    id: string,
    label: string,
    caption: string,
    run: (document: KernelDocument) => Promise<string | null>
  ) => {
    commands.addCommand(id, {
      label: args => (args.isPalette ? trans.__('TPU: %1', label) : label),
      caption,
      isEnabled: () => !!current(),
      isVisible: () => !!current(),
      describedBy: NO_ARGUMENTS,
      execute: async () => {
        const document = current();
        if (document) {
          const done = run(document);
          await attempt(done.then(text => offers.say(document, text)));
        }
      }
    });
    palette?.addItem({
      command: id,
      category: trans.__('TPU'),
      args: { isPalette: true }
    });
  };
  add(
    CONTINUE,
    trans.__('Continue on Another TPU…'),
    trans.__('Start a kernel on another TPU with the variables of this one'),
    document => continueOn(document, actions)
  );
  add(
    RESTART,
    trans.__('Restart Kernel and Keep Variables…'),
    trans.__('Save the variables, restart the kernel, and restore them'),
    document => restartWithVariables(document, actions)
  );
  shell.currentChanged?.connect(() => commands.notifyCommandChanged(CONTINUE));
}

async function restartWithVariables(
  document: KernelDocument,
  { model }: IPanelActions
): Promise<string | null> {
  const kernel = document.sessionContext.session?.kernel;
  const tpu = tpuOf(document, model.tpus);
  const agreed =
    kernel &&
    tpu &&
    (await confirm(
      trans.__('Restart the kernel and keep its variables?'),
      trans.__(
        'The variables are saved and restored after the restart. What can’t be kept, such as open files, generators and widgets, is lost, and named then. If saving fails, the kernel is not restarted.'
      ),
      trans.__('Restart')
    ));
  if (!agreed) {
    return null;
  }
  const begun = await model.client.sessions.restart(tpu, kernel.id);
  const outcome = await outcomeOf(model, begun);
  return outcome && restoredText(outcome);
}

// Saves a notebook when one of its cells is run on a TPU. What a cell prints while no page shows it can
// only come back into a cell that the file has.

import { JupyterFrontEnd } from '@jupyterlab/application';

import { findKernelWidget, IKernelWidget } from './kernelWidget';
import { KernelReplay } from './replay';

/** As much of a notebook's context as is needed. */
interface IContext {
  isReady: boolean;
  contentsModel: { writable?: boolean } | null;
  model: { collaborative?: boolean; dirty: boolean; readOnly: boolean };
  save(): Promise<void>;
}

/** *isWanted*: the user's setting. */
export function saveOnRun(
  shell: JupyterFrontEnd.IShell,
  replay: KernelReplay,
  isWanted: () => boolean
): void {
  /** Those that are being saved, and whether a cell was run meanwhile, which is saved after that. */
  const saving = new Map<IContext, boolean>();
  const save = async (context: IContext) => {
    if (saving.has(context)) {
      saving.set(context, true);
      return;
    }
    do {
      saving.set(context, false);
      await context.save().catch(() => undefined); // JupyterLab says why
    } while (saving.get(context));
    saving.delete(context);
  };
  replay.ran.connect((_, { clientId }) => {
    const widget = findKernelWidget(shell, clientId) as
      (IKernelWidget & { context?: IContext }) | undefined;
    const context = widget?.context;
    // A shared document is saved by its server.
    if (
      isWanted() &&
      context?.isReady &&
      context.contentsModel?.writable !== false &&
      !context.model.collaborative &&
      !context.model.readOnly
    ) {
      void save(context);
    }
  });
}

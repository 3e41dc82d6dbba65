// Tells of the end of long work when the panel, which shows it, is not in sight; and of the end of
// a kernel, which takes what it computed with it, always.

import { Notification } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { startableEnvironments } from './model/availableActions';
import { Actions } from './actions/actions';
import { IOperation } from './api';
import { kernelName } from './actions/dialogs';
import { keyOf } from './model/resources';
import { TPUModel } from './model/model';
import { operationTitle } from './labels';

/** Milliseconds for which good news stay on the screen. */
const SUCCESS_TIMEOUT = 8000;

/** *open* brings the panel to the front. */
export function addNotifications(
  actions: Actions,
  panel: Widget,
  open: () => void
): void {
  const { model, trans } = actions;
  const onEnd = (_: TPUModel, operation: IOperation) => {
    if (!actions.notify || panel.isVisible) {
      return;
    }
    const title = operationTitle(operation, trans);
    const show = { label: trans.__('Show'), callback: open };
    if (operation.state === 'failed') {
      const why = operation.problem?.message ?? operation.message;
      Notification.error(trans.__('%1: %2', title, why), {
        autoClose: false,
        actions: [show]
      });
    } else if (operation.state === 'done') {
      const key = keyOf({ name: operation.tpu, zone: operation.zone });
      const tpu = model.tpu(key);
      const notebook = {
        label: trans.__('New Notebook'),
        callback: () => {
          if (tpu) {
            void actions.openNotebook(model.tpu(key) ?? tpu);
          }
        }
      };
      Notification.success(title, {
        autoClose: SUCCESS_TIMEOUT,
        actions:
          tpu && startableEnvironments(tpu).length > 0 ? [notebook] : [show]
      });
    }
  };
  model.operationEnded.connect(onEnd);
  model.kernelProblem.connect((_, kernel) => {
    const { message, hint, reason } = kernel.problem!;
    const name = kernelName(kernel, trans);
    const show = { label: trans.__('Show TPU'), callback: open };
    if (reason === 'CHIPS_HELD') {
      // It lives, and another kernel was not started for its sake.
      const end = {
        label: trans.__('Shut Down %1', name),
        callback: () => {
          const tpu = model.tpu(keyOf({ name: kernel.tpu, zone: kernel.zone }));
          if (tpu) {
            void actions.shutDownKernel(tpu, { ...kernel, problem: null });
          }
        }
      };
      Notification.warning(message, { autoClose: false, actions: [end, show] });
      return;
    }
    Notification.error(`${name}: ${message} ${hint ?? ''}`.trim(), {
      autoClose: false,
      actions: [show]
    });
  });
}

// Says why kernels died, once for all that died for the same reason, and offers to run their
// notebooks again when their TPU is there.

import { Notification } from '@jupyterlab/apputils';

import { IPanelActions } from '../actions/panelActions';
import { problemLine } from '../language/text';
import { trans } from '../language/translation';
import { isGone } from '../model/availableActions';
import { ITPU } from '../rest/api';
import { attempt } from '../ui/attempt';
import { kernelName } from './kernelLabels';

/** The notebooks of this page, by their paths on the server. */
export interface IOpenNotebooks {
  isOpen(path: string): boolean;
  /** Runs what is above the selected cell, in a new kernel. */
  runAbove(path: string): Promise<void>;
}

/** Kernels that were lost for one reason. */
interface ILoss {
  id: string;
  why: string;
  type: 'error' | 'warning';
  names: Set<string>;
  /** The paths of the notebooks that are open here. */
  paths: Set<string>;
  tpu: string;
  /** Whether it says that they can run again. */
  offered: boolean;
}

/**
 * onEndedTPU: takes a kernel that was lost with a TPU that Google has ended, which has a notification
 * of its own.
 */
export function addLostKernels(
  actions: IPanelActions,
  notebooks: IOpenNotebooks,
  onEndedTPU: (tpu: ITPU, kernel: string) => void
): {
  /** The kernels that were lost with a TPU; what was said of them goes away. */
  take: (tpu: string) => string[];
} {
  const { model } = actions;
  const losses = new Map<string, ILoss>();
  const isConnected = (name: string) =>
    model.tpus.some(tpu => tpu.name === name && tpu.connection === 'connected');
  const show = actions.showTPU;
  const say = (loss: ILoss, back: boolean) => {
    loss.offered = loss.paths.size > 0 && isConnected(loss.tpu);
    const run = {
      label: trans.__('Run Above'),
      // One after the other: each becomes the current notebook.
      callback: async () => {
        for (const path of loss.paths) {
          await attempt(notebooks.runAbove(path));
        }
      }
    };
    const text = `${[...loss.names].join(', ')}: ${loss.why}`;
    const message = back
      ? trans.__('%1 %2 is connected again.', text, loss.tpu)
      : text;
    const options = {
      autoClose: false as const,
      actions: loss.offered ? [run, show] : [show]
    };
    if (Notification.manager.has(loss.id)) {
      Notification.update({ id: loss.id, message, ...options });
    } else {
      loss.id = Notification.emit(message, loss.type, options);
    }
  };
  model.kernelProblem.connect((_, kernel) => {
    const { reason } = kernel.problem!;
    const isOpen = notebooks.isOpen(kernel.notebook);
    const isShutDown = reason === 'CANCELLED';
    if (isShutDown && kernel.notebook && !isOpen) {
      return; // somebody wanted it, and nobody here looks for it
    }
    const why = problemLine(kernel.problem);
    const key = `${kernel.tpu} ${why}`;
    let loss = losses.get(key);
    if (!loss || (loss.id && !Notification.manager.has(loss.id))) {
      loss = {
        id: '',
        why,
        type: isShutDown ? 'warning' : 'error',
        names: new Set(),
        paths: new Set(),
        tpu: kernel.tpu,
        offered: false
      };
      losses.set(key, loss);
    }
    loss.names.add(kernelName(kernel));
    if (isOpen && !isShutDown) {
      loss.paths.add(kernel.notebook); // what was shut down is not to run again
    }
    const ended = model.tpus.find(
      tpu => tpu.name === kernel.tpu && isGone(tpu)
    );
    if (ended) {
      onEndedTPU(ended, kernelName(kernel));
    } else {
      say(loss, false);
    }
  });
  model.stateChanged.connect(() => {
    for (const loss of losses.values()) {
      if (loss.paths.size > 0 && !loss.offered && isConnected(loss.tpu)) {
        say(loss, true);
      }
    }
  });
  return {
    take: tpu => {
      const lost = [...losses.values()].filter(
        loss => loss.tpu === tpu && Notification.manager.has(loss.id)
      );
      return lost.flatMap(loss => {
        Notification.dismiss(loss.id);
        loss.id = '';
        return [...loss.names];
      });
    }
  };
}

// Variables go from one kernel to another: saved, restored in a new kernel of the document, or kept
// while their kernel is restarted. Each step is an operation of the server.

import { Kernel } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { IKernelWidget } from '../kernels/kernelWidget';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { operationTitle } from '../model/operationLabels';
import { IOperation, ISession, ISessionOutcome, ITPU } from '../rest/api';
import { Failure } from '../rest/failure';
import { TPURef } from '../rest/tpuRef';
import { until } from '../state/observable';
import { wait } from '../ui/wait';
import { outcomesOf } from './sessionOutcomes';

/** A notebook or console, as far as it is needed here. */
export type KernelDocument = Widget &
  IKernelWidget & {
    sessionContext: {
      changeKernel(model: {
        name: string;
      }): Promise<Kernel.IKernelConnection | null>;
    };
  };

/** Milliseconds for a host to know a kernel that was started there, and between two looks. */
const KNOWN = { timeout: 60_000, interval: 1000 };

/**
 * Follows an operation to its end; what became of its kernel, or null. Why it failed is shown by the
 * panel, or by a notification while that is closed.
 */
export async function outcomeOf(
  model: TPUModel,
  begun: IOperation
): Promise<ISessionOutcome | null> {
  model.putOperation(begun);
  const ended = await wait(operationTitle(begun), (signal, onProgress) => {
    signal.addEventListener('abort', () => void model.cancel(begun));
    return until(model, () => {
      const now = model.operation(begun.id) ?? begun;
      if (now.state !== 'running') {
        return now;
      }
      onProgress(now.progress ?? 0);
      return null;
    });
  });
  return ended?.state === 'done' ? (outcomesOf(ended)[0] ?? null) : null;
}

/** Restores a session in a kernel that may have been started a moment ago; null if that failed. */
export async function restore(
  model: TPUModel,
  tpu: TPURef,
  session: string,
  kernel: string,
  overwrite = false
): Promise<ISessionOutcome | null> {
  const end = Date.now() + KNOWN.timeout;
  for (;;) {
    try {
      const request = { kernel, overwrite };
      const begun = await model.client.sessions.restore(tpu, session, request);
      return await outcomeOf(model, begun);
    } catch (error) {
      const { reason } = Failure.from(error);
      if (reason !== 'NOT_FOUND' || Date.now() > end) {
        throw error;
      }
    }
    await new Promise(resolve => setTimeout(resolve, KNOWN.interval));
  }
}

/** Gives a document a new kernel, and that the variables of a session. Throws if it does not start. */
export async function restoreInNewKernel(
  model: TPUModel,
  document: KernelDocument,
  to: { tpu: ITPU; kernel: string },
  session: string
): Promise<ISessionOutcome | null> {
  const started = await document.sessionContext.changeKernel({
    name: to.kernel
  });
  if (!started) {
    throw new Error(
      trans.__(
        'The kernel on %1 was not started. The variables are saved: restore them on the page of %1.',
        to.tpu.name
      )
    );
  }
  return restore(model, to.tpu, session, started.id);
}

/** The session of an id, as a TPU has it now. */
export async function findSession(
  model: TPUModel,
  tpu: TPURef,
  id: string
): Promise<ISession | undefined> {
  const { sessions } = await model.client.sessions.list(tpu);
  return sessions.find(one => one.id === id);
}

// Cells that are run while their notebook is "Initializing", and has no kernel connection yet: a kernel
// on a TPU takes its time. JupyterLab (4.6, CodeCell.execute) clears such a cell and is done with it.
// Here the cell waits for the kernel, with [*], as one that is run a moment later does.

import { ISignal } from '@lumino/signaling';

/** What is needed of JupyterLab's ISessionContext, and of its code cells. */
export interface IContext {
  session: { kernel: unknown } | null;
  kernelDisplayStatus: string;
  isDisposed: boolean;
  ready: Promise<void>;
  kernelChanged: ISignal<unknown, unknown>;
  statusChanged: ISignal<unknown, unknown>;
  disposed: ISignal<unknown, unknown>;
}

/** The cells of its notebooks. */
export interface ICells {
  widgets?: readonly ICell[];
}

interface ICell {
  isDisposed: boolean;
  model: { type: string; executionState?: string };
}

type Execute = (
  cell: ICell,
  context: IContext,
  ...rest: unknown[]
) => Promise<unknown>;

/** The class of code cells that are notebooks' and consoles'. */
interface ICellClass {
  execute: Execute;
}

const changed = new WeakSet<object>();

/** Makes cells of this one's class wait; changes a class once. */
export function queueEarlyCells(cell: object): void {
  let cellClass: object | null = cell.constructor;
  while (
    cellClass &&
    !Object.prototype.hasOwnProperty.call(cellClass, 'execute')
  ) {
    cellClass = Object.getPrototypeOf(cellClass) as object | null;
  }
  if (cellClass && !changed.has(cellClass)) {
    changed.add(cellClass);
    const found = cellClass as ICellClass;
    found.execute = waiting(found.execute);
  }
}

function waiting(execute: Execute): Execute {
  return async (cell, context, ...rest) => {
    if (isInitializing(context)) {
      cell.model.executionState = 'running';
      await initialized(context);
      if (cell.isDisposed) {
        return undefined;
      }
    }
    return execute(cell, context, ...rest);
  };
}

function isInitializing(context: IContext): boolean {
  return (
    !context.isDisposed &&
    !context.session?.kernel &&
    context.kernelDisplayStatus === 'initializing'
  );
}

/** Returns when there is a kernel, or none comes: JupyterLab says why. */
function initialized(context: IContext): Promise<void> {
  return new Promise(resolve => {
    const signals = [
      context.kernelChanged,
      context.statusChanged,
      context.disposed
    ];
    const look = () => {
      if (!isInitializing(context)) {
        signals.forEach(signal => signal.disconnect(look));
        resolve();
      }
    };
    signals.forEach(signal => signal.connect(look));
    context.ready.then(look, look);
  });
}

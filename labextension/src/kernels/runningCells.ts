// Fills the running cells of a notebook that is opened again: sends the old request once more, under
// its id. The server does not run it again; it repeats the request's output.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Kernel, KernelMessage } from '@jupyterlab/services';

import { findKernelWidget, IKernelWidget } from './kernelWidget';
import { IReplayableRequest, IReplayOffer, KernelReplay } from './replay';

/** Milliseconds to wait for a notebook, and between two checks. */
const TIMEOUT = 30000;
const CHECK = 100;

/** As much of a notebook's panel as is needed, without loading the package it comes from. */
interface INotebookPanel extends IKernelWidget {
  context: { isReady: boolean };
  content: { widgets: readonly ICell[] };
}

interface ICell {
  model: {
    type: string;
    sharedModel: { getId(): string; getSource(): string };
    trusted: boolean;
    executionCount: number | null;
    executionState?: 'idle' | 'running';
  };
  outputArea: { future: Kernel.IShellFuture };
  setPrompt(value: string): void;
}

/** Fills cells of the notebooks in *shell* when the server offers their requests. */
export function restoreRunningCells(
  shell: JupyterFrontEnd.IShell,
  replay: KernelReplay
): void {
  replay.offered.connect((_, offer) => void restore(shell, offer));
}

async function restore(shell: JupyterFrontEnd.IShell, offer: IReplayOffer) {
  const panel = await panelOf(shell, offer.clientId);
  const kernel = panel?.sessionContext.session?.kernel;
  if (panel && kernel) {
    for (const request of offer.requests) {
      const cell = panel.content.widgets.find(
        ({ model }) =>
          model.type === 'code' && model.sharedModel.getId() === request.cell
      );
      // A cell with this count was saved after it had ended.
      if (
        cell &&
        !(request.count && cell.model.executionCount === request.count)
      ) {
        restoreCell(cell, kernel, request);
      }
    }
  }
}

/** The notebook whose kernel connection has the id; null if there is none (a console's kernel). */
async function panelOf(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): Promise<INotebookPanel | null> {
  const end = Date.now() + TIMEOUT;
  while (Date.now() < end) {
    const found = findKernelWidget(shell, clientId) as
      (IKernelWidget & Partial<INotebookPanel>) | undefined;
    if (found?.context?.isReady && found.content?.widgets) {
      return found as INotebookPanel;
    }
    await new Promise(resolve => setTimeout(resolve, CHECK));
  }
  return null;
}

function restoreCell(
  cell: ICell,
  kernel: Kernel.IKernelConnection,
  request: IReplayableRequest
): void {
  const { model } = cell;
  const message = KernelMessage.createMessage<KernelMessage.IExecuteRequestMsg>(
    {
      msgType: 'execute_request',
      msgId: request.id,
      channel: 'shell',
      username: kernel.username,
      session: kernel.clientId,
      content: { code: model.sharedModel.getSource() },
      metadata: { cellId: request.cell }
    }
  );
  const future = kernel.sendShellMessage(message, true, false);
  cell.outputArea.future = future as Kernel.IShellFuture;
  model.trusted = true; // it was run by this user
  model.executionState = 'running';
  cell.setPrompt('*');
  future.done
    .then(reply => {
      const { content } = reply as KernelMessage.IExecuteReplyMsg;
      if ('execution_count' in content) {
        model.executionCount = content.execution_count ?? null;
      }
    })
    .catch(() => undefined) // the kernel was restarted, which the cell shows
    .finally(() => {
      model.executionState = 'idle';
    });
}

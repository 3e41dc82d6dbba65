// Fills the running cells of a notebook that is opened afresh: asks for the old request again, by
// its id. The server runs nothing a second time and says again what the request has said.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { IReplayOffer, IReplayableRequest, Positions } from './positions';

/** Milliseconds in which a notebook is expected to be there, and between looks. */
const LIMIT = 30000;
const LOOK = 100;

/** As much of a notebook's panel as is needed, without loading the package it comes from. */
interface INotebookPanel {
  context: { isReady: boolean };
  sessionContext: {
    session: { kernel: Kernel.IKernelConnection | null } | null;
  };
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

/** Fills cells of what *shell* shows as the server offers their requests. */
export function restoreRunningCells(
  shell: JupyterFrontEnd.IShell,
  places: Positions
): void {
  places.offered.connect((_, offer) => void restore(shell, offer));
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
      // A cell with this count was saved when it had ended.
      if (
        cell &&
        !(request.count && cell.model.executionCount === request.count)
      ) {
        restoreCell(cell, kernel, request);
      }
    }
  }
}

/** The notebook whose kernel connection has the id; null if there is none, a console's say. */
async function panelOf(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): Promise<INotebookPanel | null> {
  const end = Date.now() + LIMIT;
  while (Date.now() < end) {
    for (const widget of shell.widgets('main')) {
      const panel = widget as Widget & Partial<INotebookPanel>;
      const kernel = panel.sessionContext?.session?.kernel;
      if (kernel?.clientId === clientId && panel.content?.widgets) {
        if (panel.context?.isReady) {
          return panel as INotebookPanel;
        }
      }
    }
    await new Promise(resolve => setTimeout(resolve, LOOK));
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
  model.trusted = true; // it was run here, by this user
  model.executionState = 'running';
  cell.setPrompt('*');
  future.done
    .then(reply => {
      const { content } = reply as KernelMessage.IExecuteReplyMsg;
      if ('execution_count' in content) {
        model.executionCount = content.execution_count ?? null;
      }
    })
    .catch(() => undefined) // the kernel was restarted: its cells show that
    .finally(() => {
      model.executionState = 'idle';
    });
}

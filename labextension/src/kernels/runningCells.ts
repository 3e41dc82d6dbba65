// Fills the running cells of a notebook that is opened again, and those that another client runs, such
// as VS Code: sends the request once more, under its id. It is not run again; the server repeats its
// output (socket.ts).
//
// In a document that other pages show, too (jupyter-collaboration), one page fills a cell; the
// server says which. When that server has ended, the next one has the document as it was saved. What
// may be missing is written again.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Contents, Kernel, KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { trans } from '../language/translation';
import { findKernelWidget, IKernelWidget } from './kernelWidget';
import { HeadLines } from './notebookNotices';
import {
  IReplayableRequest,
  IReplayOffer,
  IRequestOfClient,
  KernelReplay
} from './replay';
import { whenSynced } from './sharedDocuments';

/** Milliseconds to wait for a notebook, and between two checks. */
const TIMEOUT = 30000;
const CHECK = 100;

/** As much of a notebook's panel as is needed, without loading the package it comes from. */
interface INotebookPanel extends Widget, IKernelWidget {
  context: {
    isReady: boolean;
    model: {
      collaborative?: boolean;
      sharedModel: {
        ydoc?: unknown;
        cells: readonly unknown[];
        insertCell(index: number, cell: object): unknown;
      };
    };
    save(): Promise<void>;
  };
  content: { widgets: readonly ICell[] };
}

interface ICell {
  model: {
    type: string;
    sharedModel: {
      getId(): string;
      getSource(): string;
      setSource(source: string): void;
    };
    trusted: boolean;
    executionCount: number | null;
    executionState?: 'idle' | 'running';
  };
  outputArea: {
    future: Kernel.IShellFuture;
    detachFuture(): Kernel.IShellFuture | null;
    widgets: readonly Widget[];
  };
  setPrompt(value: string): void;
}

/** Fills cells of the notebooks in *shell* when the server offers their requests. */
export function restoreRunningCells(
  shell: JupyterFrontEnd.IShell,
  contents: Contents.IManager,
  replay: KernelReplay
): void {
  const synced = (panel: INotebookPanel) =>
    whenSynced(panel.context.model.sharedModel.ydoc, contents);

  /** Fills, declines or waits to fill each cell whose request is offered. */
  const decide = async ({ clientId, requests }: IReplayOffer) => {
    const panel = await panelOf(shell, clientId);
    const kernel = kernelOf(panel);
    const isShared = panel?.context.model.collaborative;
    if (isShared) {
      await synced(panel);
    }
    const missing: IReplayableRequest[] = [];
    for (const request of requests) {
      const cell = cellOf(panel, request.cell);
      if (!kernel || !cell) {
        replay.decline(clientId, request.id);
        if (panel && kernel && request.code && !isShared) {
          missing.push(request);
        }
      } else if (isShared) {
        replay.wait(clientId, request);
      } else if (request.count && cell.model.executionCount === request.count) {
        replay.decline(clientId, request.id); // it was saved after it had ended
      } else {
        const { sharedModel } = cell.model;
        if (request.code && !sharedModel.getSource()) {
          sharedModel.setSource(request.code); // it was saved before it was written
        }
        restoreCell(cell, kernel, request);
      }
    }
    // The kernel's state: what was said of it meanwhile was dropped.
    await drain(kernel);
    if (panel && missing.length > 0) {
      unsaved.set(panel, { clientId, requests: missing });
      showUnsaved();
    }
  };

  /** Cells that ran and are not in their notebook, which was not saved with them. */
  const unsaved = new Map<INotebookPanel, IReplayOffer>();
  const lines = new HeadLines();
  const showUnsaved = () =>
    lines.update(show => {
      for (const [panel, { clientId, requests }] of unsaved) {
        if (panel.isDisposed) {
          unsaved.delete(panel);
          continue;
        }
        const done = (act?: () => void) => () => {
          unsaved.delete(panel);
          act?.();
          showUnsaved();
        };
        const insert = () => {
          const kernel = kernelOf(panel);
          if (kernel?.clientId === clientId) {
            requests.forEach(one => insertCell(panel, kernel, one, replay));
            void panel.context.save().catch(() => undefined); // JupyterLab says why
          }
        };
        const count = requests.length;
        show(panel, missingText(requests), [
          {
            label: trans._n('Insert It', 'Insert Them', count),
            callback: done(insert)
          },
          { label: trans.__('Dismiss'), callback: done() }
        ]);
      }
    });

  /** Fills the cells of requests that waited. */
  const fill = async ({ clientId, requests }: IReplayOffer) => {
    const panel = await panelOf(shell, clientId);
    const kernel = kernelOf(panel);
    // Messages that were handed on while it waited must not reach the cell.
    await drain(kernel);
    for (const request of requests) {
      const cell = cellOf(panel, request.cell);
      if (kernel && cell) {
        restoreCell(cell, kernel, request);
      } else {
        replay.decline(clientId, request.id);
      }
    }
  };

  /**
   * Asks again which page writes the output of requests, when the server of a shared document has
   * ended. Until this page has the new server's document, that changes the cells.
   */
  const rewrite = async ({ clientId, requests }: IReplayOffer) => {
    const panel = notebookOf(shell, clientId);
    if (!panel?.context.model.collaborative) {
      return;
    }
    for (const request of requests) {
      showing(panel, request.id)?.outputArea.detachFuture()?.dispose();
      replay.suspend(clientId, request);
    }
    await synced(panel);
    requests.forEach(request => replay.resume(clientId, request));
  };

  /** Closes the input boxes of a request that has its input. */
  const closeInput = async ({ clientId, id }: IRequestOfClient) => {
    const panel = notebookOf(shell, clientId);
    const kernel = kernelOf(panel);
    await drain(kernel);
    for (const { outputArea } of codeCells(panel)) {
      if (outputArea.future?.msg.header.msg_id === id) {
        const boxes = [...outputArea.widgets].filter(
          box =>
            box.hasClass('jp-OutputArea-stdin-item') &&
            // Answered here: JupyterLab closes it itself, and keeps the focus.
            !box.hasClass('jp-OutputArea-stdin-hiding')
        );
        if (boxes.length > 0) {
          boxes.forEach(box => box.dispose());
          kernel!.hasPendingInput = false;
        }
      }
    }
  };

  replay.isFree = (clientId, id) => {
    const cell = cellOf(notebookOf(shell, clientId), id);
    const future = cell?.outputArea.future;
    return !!cell && (!future || future.isDisposed);
  };
  replay.offered.connect((_, offer) => void decide(offer));
  replay.granted.connect((_, offer) => void fill(offer));
  replay.unwritten.connect((_, offer) => void rewrite(offer));
  replay.inputEnded.connect((_, request) => void closeInput(request));
  replay.lost.connect((_, { clientId, id, missing }) => {
    const cell = showing(notebookOf(shell, clientId), id);
    if (cell) {
      const { future } = cell.outputArea;
      if (!missing) {
        // What another page writes must not be marked as ended here.
        cell.outputArea.detachFuture();
        const request = { id, cell: cell.model.sharedModel.getId() };
        replay.wait(clientId, { ...request, count: null });
      }
      future.dispose();
    }
  });
}

function kernelOf(
  panel: INotebookPanel | null
): Kernel.IKernelConnection | null {
  return panel?.sessionContext.session?.kernel ?? null;
}

/** Waits until JupyterLab has handled all that came of a kernel: it answers in order. */
async function drain(kernel: Kernel.IKernelConnection | null): Promise<void> {
  await kernel?.requestKernelInfo().catch(() => undefined); // it has ended
}

function codeCells(panel: INotebookPanel | null): ICell[] {
  const cells = panel?.content.widgets ?? [];
  return cells.filter(({ model }) => model.type === 'code');
}

/** The cell that shows a request's output. */
function showing(panel: INotebookPanel | null, id: string): ICell | undefined {
  return codeCells(panel).find(
    ({ outputArea }) => outputArea.future?.msg.header.msg_id === id
  );
}

function cellOf(panel: INotebookPanel | null, id: string): ICell | undefined {
  return codeCells(panel).find(({ model }) => model.sharedModel.getId() === id);
}

/** The notebook whose kernel connection has the id; null if there is none (a console's kernel). */
async function panelOf(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): Promise<INotebookPanel | null> {
  const end = Date.now() + TIMEOUT;
  let panel = notebookOf(shell, clientId);
  while (!panel && Date.now() < end) {
    await new Promise(resolve => setTimeout(resolve, CHECK));
    panel = notebookOf(shell, clientId);
  }
  return panel;
}

function notebookOf(
  shell: JupyterFrontEnd.IShell,
  clientId: string
): INotebookPanel | null {
  const widget = findKernelWidget(shell, clientId) as
    (IKernelWidget & Partial<INotebookPanel>) | undefined;
  return widget?.context?.isReady && widget.content?.widgets
    ? (widget as INotebookPanel)
    : null;
}

/** At the end of the notebook, with its output, which goes on. */
function insertCell(
  panel: INotebookPanel,
  kernel: Kernel.IKernelConnection,
  request: IReplayableRequest,
  replay: KernelReplay
): void {
  const { sharedModel } = panel.context.model;
  sharedModel.insertCell(sharedModel.cells.length, {
    cell_type: 'code',
    id: request.cell,
    source: request.code
  });
  const cell = cellOf(panel, request.cell);
  if (cell) {
    replay.readopt(kernel.clientId, request);
    restoreCell(cell, kernel, request);
  }
}

/** What is said of requests whose cells are not in their notebook. */
export function missingText(requests: IReplayableRequest[]): string {
  const count = requests.length;
  const [first] = (requests[0].code ?? '').trim().split('\n');
  const lines = requests.reduce((sum, one) => sum + (one.lines ?? 0), 0);
  if (count > 1) {
    return lines
      ? trans._n(
          '%2 cells that are not in this notebook printed %1 line. The first one: %3',
          '%2 cells that are not in this notebook printed %1 lines. The first one: %3',
          lines,
          count,
          first
        )
      : trans.__(
          '%1 cells that are not in this notebook were run. The first one: %2',
          count,
          first
        );
  }
  return lines
    ? trans._n(
        'A cell that is not in this notebook printed %1 line. Its code: %2',
        'A cell that is not in this notebook printed %1 lines. Its code: %2',
        lines,
        first
      )
    : trans.__('A cell that is not in this notebook was run: %1', first);
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
      // Not if another page fills it now.
      if (cell.outputArea.future === future) {
        model.executionState = 'idle';
      }
    });
}

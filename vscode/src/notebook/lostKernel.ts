// A kernel that has ended with a cell that ran, perhaps while no window looked: what is said of it.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { tpuStatus } from '../../../labextension/src/model/tpuLabels';
import { NodeClient, placeOf } from '../client';
import { RunStore } from './runStore';
import { kernelspecs } from './sessions';

/**
 * Forgets the kernel of *notebook*, which the server does not have any more, and says so if one of its
 * cells had not ended. Not if it was on another server, where it may go on.
 */
export async function reportLost(
  client: NodeClient,
  store: RunStore,
  notebook: vscode.NotebookDocument
): Promise<void> {
  const { uri } = notebook;
  const { kernelspec, server } = store.kernel(uri) ?? {};
  if (server !== placeOf(client.server)) {
    return;
  }
  const hasEnded = Object.values(store.runs(uri)).every(run => run.ended);
  store.setKernel(uri, null);
  if (hasEnded) {
    return;
  }
  const select = trans.__('Select Kernel');
  const name = uri.path.split('/').at(-1)!;
  // With a button it stays until it is closed.
  const answer = await vscode.window.showErrorMessage(
    await explanation(client, name, kernelspec),
    select
  );
  if (answer === select && !notebook.isClosed) {
    await vscode.window.showNotebookDocument(notebook);
    await vscode.commands.executeCommand('notebook.selectKernel');
  }
}

async function explanation(
  client: NodeClient,
  name: string,
  kernelspec?: string
): Promise<string> {
  const [list, specs] = await Promise.all([
    client.tpus().catch(() => null),
    kernelspecs(client).catch(() => null)
  ]);
  const isOffered = specs?.some(one => one.name === kernelspec);
  const tpu = list?.tpus.find(({ environments }) =>
    environments.some(one =>
      [one.kernelspec, one.pod_kernelspec].includes(kernelspec ?? '')
    )
  );
  if (list && specs && kernelspec && !tpu && !isOffered) {
    return trans.__(
      'The kernel of %1 ended while a cell ran: its TPU was deleted or disconnected. Select another kernel, and run the cell again.',
      name
    );
  }
  if (tpu && tpu.state !== 'READY') {
    return trans.__(
      'The kernel of %1 ended while a cell ran: %2 is not ready (%3). Select another kernel, and run the cell again.',
      name,
      tpu.name,
      tpuStatus(tpu).label
    );
  }
  return trans.__('The kernel of %1 was shut down while a cell ran.', name);
}

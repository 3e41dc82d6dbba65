// Connecting, starting, stopping and deleting TPUs, and what is under way.

import * as vscode from 'vscode';

import { priceText } from '../../../labextension/src/money/costLabels';
import { operationTitle } from '../../../labextension/src/operations/operationLabels';
import { IOperation, ITPU } from '../../../labextension/src/rest/api';
import { INode } from '../nodes';
import { trans } from '../../../labextension/src/ui/translation';
import { ask, Commands, must } from './context';

export async function connect(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'connect', 'Connect');
  const { client, sync } = await commands.connection();
  const unfinished = tpu.environments.find(one => one.state === 'failed');
  sync.putOperation(
    await client.connect(
      tpu,
      unfinished ? { environment: unfinished.name } : {}
    )
  );
}

export async function disconnect(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(node, 'disconnect', 'Disconnect');
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  if (ends.kernels) {
    await ask(
      `Disconnect ${tpu.name}?`,
      `This shuts down ${ends.kernels}. Their variables will be lost.`,
      'Disconnect'
    );
  }
  sync.putOperation(
    await client.disconnect(tpu, { end_kernels: !!ends.kernels })
  );
}

export async function start(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'start', 'Start');
  const { client, sync } = await commands.connection();
  const price = tpu.cost.usd_per_hour;
  if (!tpu.emulated) {
    const pay = price === 0 ? '' : 'You pay while it is ready, used or not.';
    await ask(`Start ${tpu.name}?`, `${priceText(tpu.cost)}\n${pay}`, 'Start');
  }
  const name = await commands.confirmName(tpu);
  sync.putOperation(
    await client.start(tpu, {
      ...(price !== 0 && { confirm_price: true, max_price: price }),
      ...name
    })
  );
}

export async function stop(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'stop', 'Stop');
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  await ask(
    `Stop ${tpu.name}?`,
    [ends.text, 'Its disk is kept.'].filter(Boolean).join('\n'),
    'Stop'
  );
  const name = await commands.confirmName(tpu);
  sync.putOperation(
    await client.stop(tpu, {
      end_kernels: !!ends.kernels,
      end_jobs: !!ends.jobs,
      ...name
    })
  );
}

export async function remove(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'delete', 'Delete');
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  await ask(
    `Delete ${tpu.name}?`,
    [ends.text, 'Everything on its disk will be lost.']
      .filter(Boolean)
      .join('\n'),
    'Delete'
  );
  const name = await commands.confirmName(tpu);
  sync.putOperation(
    await client.delete(tpu, {
      end_kernels: !!ends.kernels,
      end_jobs: !!ends.jobs,
      ...name
    })
  );
}

interface IEnding {
  /** "2 kernels"; "" for none. */
  kernels: string;
  jobs: string;
  text: string;
}

/** What runs on a TPU, as far as that is known: the server refuses to end what was not named. */
async function ending(commands: Commands, tpu: ITPU): Promise<IEnding> {
  const { client, resources } = await commands.connection();
  const running = ['starting', 'running', 'stopping', 'waiting', 'unknown'];
  const jobs = resources
    .jobs(tpu)
    .filter(one => running.includes(one.state)).length;
  let kernels = tpu.kernels;
  if (tpu.state === 'READY' && tpu.connection === 'connected') {
    try {
      kernels = (await client.kernels.list(tpu)).length;
    } catch {
      // The host does not answer: the number of the list is the newest.
    }
  }
  const kernelsText = kernels
    ? trans._n('%1 kernel', '%1 kernels', kernels)
    : '';
  const jobsText = jobs ? trans._n('%1 job', '%1 jobs', jobs) : '';
  const both = [kernelsText, jobsText].filter(Boolean).join(' and ');
  return {
    kernels: kernelsText,
    jobs: jobsText,
    text: both && `This ends ${both}. Variables of kernels will be lost.`
  };
}

export async function cancelOperation(
  commands: Commands,
  node?: INode
): Promise<void> {
  const { client, resources, sync } = await commands.connection();
  let operation = node?.operation;
  if (!operation) {
    const items = resources.running
      .filter(one => one.cancellable)
      .map(one => ({ label: operationTitle(one), one }));
    if (!items.length) {
      throw new Error('Nothing is under way that can be cancelled.');
    }
    operation = must(
      await vscode.window.showQuickPick(items, { placeHolder: 'Cancel' })
    ).one;
  }
  if (operation.kind === 'create') {
    await ask(
      `Stop creating ${operation.tpu}?`,
      'Everything created so far is deleted.',
      'Stop Creating'
    );
  } else if (operation.kind === 'hunt') {
    await ask(
      `Stop the hunt for ${operation.tpu}?`,
      'What it has begun is deleted.',
      'Stop Hunt'
    );
  }
  sync.putOperation(await client.operations.cancel(operation.id));
}

/** Shows what an operation has written, as text. */
export async function showLog(commands: Commands, node?: INode): Promise<void> {
  const { client } = await commands.connection();
  const { id } = must(node?.operation);
  const operation = await client.operations.get(id);
  await vscode.window.showTextDocument(
    await vscode.workspace.openTextDocument({ content: logText(operation) })
  );
}

function logText(operation: IOperation): string {
  const { problem } = operation;
  return [
    operationTitle(operation),
    ...operation.log,
    ...(problem ? [problem.message, problem.hint] : [])
  ]
    .filter(Boolean)
    .join('\n');
}

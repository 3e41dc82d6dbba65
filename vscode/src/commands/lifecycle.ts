// Connecting, starting, stopping and deleting TPUs, and what is under way.

import * as vscode from 'vscode';

import {
  lossOf,
  lossQuestion,
  mayEnd
} from '../../../labextension/src/kernels/lossLabels';
import { trans } from '../../../labextension/src/language/translation';
import {
  connectRequest,
  startRequest
} from '../../../labextension/src/model/availableActions';
import {
  cancelQuestion,
  operationTitle
} from '../../../labextension/src/model/operationLabels';
import { priceText } from '../../../labextension/src/money/costLabels';
import { startQuestion } from '../../../labextension/src/money/questionLabels';
import { IOperation } from '../../../labextension/src/rest/api';
import { INode } from '../nodes';
import { ask, Commands, must } from './context';

export async function connect(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'connect', trans.__('Connect'));
  const { client, sync } = await commands.connection();
  sync.putOperation(await client.connect(tpu, connectRequest(tpu)));
}

export async function disconnect(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(node, 'disconnect', trans.__('Disconnect'));
  const { client, sync } = await commands.connection();
  const loss = await lossOf(client, 'disconnect', tpu);
  const { end_kernels } = mayEnd(loss);
  if (end_kernels) {
    await ask(lossQuestion('disconnect', tpu, loss));
  }
  sync.putOperation(await client.disconnect(tpu, { end_kernels }));
}

export async function start(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'start', trans.__('Start'));
  const { client, sync } = await commands.connection();
  if (!tpu.emulated) {
    await ask(startQuestion(tpu), priceText(tpu.cost));
  }
  const name = await commands.confirmName(tpu);
  sync.putOperation(await client.start(tpu, { ...startRequest(tpu), ...name }));
}

export async function stop(commands: Commands, node?: INode): Promise<void> {
  await end(commands, 'stop', trans.__('Stop'), node);
}

export async function remove(commands: Commands, node?: INode): Promise<void> {
  await end(commands, 'delete', trans.__('Delete'), node);
}

/** Stops or deletes a TPU. */
async function end(
  commands: Commands,
  action: 'delete' | 'stop',
  title: string,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(node, action, title);
  const { client, sync } = await commands.connection();
  const loss = await lossOf(client, action, tpu);
  await ask(lossQuestion(action, tpu, loss));
  const name = await commands.confirmName(tpu);
  const request = { ...mayEnd(loss), ...name };
  sync.putOperation(await client[action](tpu, request));
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
      throw new Error(trans.__('Nothing is under way that can be cancelled.'));
    }
    operation = must(
      await vscode.window.showQuickPick(items, {
        placeHolder: trans.__('Cancel')
      })
    ).one;
  }
  const question = cancelQuestion(operation);
  if (question) {
    await ask(question);
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

// Connecting, starting, stopping and deleting TPUs, and what is under way.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { operationTitle } from '../../../labextension/src/model/operationLabels';
import { priceText } from '../../../labextension/src/money/costLabels';
import { IOperation, ITPU } from '../../../labextension/src/rest/api';
import { INode } from '../nodes';
import { ask, Commands, must } from './context';

export async function connect(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'connect', trans.__('Connect'));
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
  const tpu = await commands.tpu(node, 'disconnect', trans.__('Disconnect'));
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  if (ends.kernels) {
    await ask(
      trans.__('Disconnect %1?', tpu.name),
      ends.losses.kernels,
      trans.__('Disconnect')
    );
  }
  sync.putOperation(
    await client.disconnect(tpu, { end_kernels: !!ends.kernels })
  );
}

export async function start(commands: Commands, node?: INode): Promise<void> {
  const tpu = await commands.tpu(node, 'start', trans.__('Start'));
  const { client, sync } = await commands.connection();
  const price = tpu.cost.usd_per_hour;
  if (!tpu.emulated) {
    const pay =
      price === 0 ? '' : trans.__('You pay while it is ready, used or not.');
    await ask(
      trans.__('Start %1?', tpu.name),
      `${priceText(tpu.cost)}\n${pay}`,
      trans.__('Start')
    );
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
  const tpu = await commands.tpu(node, 'stop', trans.__('Stop'));
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  await ask(
    trans.__('Stop %1?', tpu.name),
    lines(ends, trans.__('Its disk is kept.')),
    trans.__('Stop')
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
  const tpu = await commands.tpu(node, 'delete', trans.__('Delete'));
  const { client, sync } = await commands.connection();
  const ends = await ending(commands, tpu);
  await ask(
    trans.__('Delete %1?', tpu.name),
    lines(ends, trans.__('Everything on its disk will be lost.')),
    trans.__('Delete')
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

function lines({ losses }: IEnding, last: string): string {
  return [losses.kernels, losses.jobs, last].filter(Boolean).join('\n');
}

interface IEnding {
  kernels: number;
  jobs: number;
  /** What that means, a sentence or two each. */
  losses: { kernels: string; jobs: string };
}

/** What runs on a TPU, as far as that is known: the server refuses to end what was not named. */
async function ending(commands: Commands, tpu: ITPU): Promise<IEnding> {
  const { client, resources } = await commands.connection();
  const running = ['starting', 'running', 'stopping', 'waiting', 'unknown'];
  const jobs = resources
    .jobsOf(tpu)
    .filter(one => running.includes(one.state)).length;
  let kernels = tpu.kernels;
  if (tpu.state === 'READY' && tpu.connection === 'connected') {
    try {
      kernels = (await client.kernels.list(tpu)).length;
    } catch {
      // The host does not answer: the number of the list is the newest.
    }
  }
  return {
    kernels,
    jobs,
    losses: {
      kernels: kernels
        ? trans._n(
            'This shuts down %1 kernel. Its variables will be lost.',
            'This shuts down %1 kernels. Their variables will be lost.',
            kernels
          )
        : '',
      jobs: jobs
        ? trans._n('This ends %1 job.', 'This ends %1 jobs.', jobs)
        : ''
    }
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
      throw new Error(trans.__('Nothing is under way that can be cancelled.'));
    }
    operation = must(
      await vscode.window.showQuickPick(items, {
        placeHolder: trans.__('Cancel')
      })
    ).one;
  }
  if (operation.kind === 'create') {
    await ask(
      trans.__('Stop creating %1?', operation.tpu),
      trans.__('Everything created so far is deleted.'),
      trans.__('Stop Creating')
    );
  } else if (operation.kind === 'hunt') {
    await ask(
      trans.__('Stop the hunt for %1?', operation.tpu),
      trans.__('What it has begun is deleted.'),
      trans.__('Stop Hunt')
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

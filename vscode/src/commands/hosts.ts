// What runs on hosts: terminals, windows, jobs, ports and TensorBoard.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as vscode from 'vscode';

import {
  closeAppQuestion,
  closeTunnelQuestion,
  portProblem
} from '../../../labextension/src/forwarding/portLabels';
import {
  jobState,
  stopQuestion
} from '../../../labextension/src/jobs/jobLabels';
import {
  kernelLoss,
  lossQuestion
} from '../../../labextension/src/kernels/lossLabels';
import { trans } from '../../../labextension/src/language/translation';
import { isOver } from '../../../labextension/src/model/jobs';
import { IApp, IJob, ITPU } from '../../../labextension/src/rest/api';
import { Failure } from '../../../labextension/src/rest/failure';
import { windowObstacle } from '../explanation';
import { CLI } from '../localServer';
import { INode } from '../nodes';
import { ask, Commands, must, refOf } from './context';

export async function openTerminal(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(node, 'terminal', trans.__('Open Terminal'));
  const host = await commands.host(node, tpu);
  const args = ['ssh', refOf(tpu), '--worker', `${host}`];
  await commands.openTerminal(
    tpu.hosts.length > 1 ? `${tpu.name} ${host}` : tpu.name,
    args
  );
}

/** Opens a window of VS Code on a host, by the Remote - SSH extension. */
export async function openWindow(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(
    node,
    'terminal',
    trans.__('Open Window on Host')
  );
  const host = await commands.host(node, tpu);
  const obstacle = windowObstacle(
    vscode.env.uiKind === vscode.UIKind.Web,
    vscode.env.remoteName
  );
  if (obstacle) {
    throw new Error(obstacle);
  }
  const known = await vscode.commands.getCommands();
  if (!known.includes('opensshremotes.openEmptyWindow')) {
    const search = trans.__('Find the Extension');
    const answer = await vscode.window.showInformationMessage(
      trans.__('A window on a host needs the extension Remote - SSH.'),
      search
    );
    if (answer === search) {
      await vscode.commands.executeCommand(
        'workbench.extensions.search',
        'ms-vscode-remote.remote-ssh'
      );
    }
    return;
  }
  const uri = await windowUri(commands, tpu, host);
  await vscode.commands.executeCommand('vscode.openFolder', uri, {
    forceNewWindow: true
  });
}

/** The address of a host's home folder; asks before it changes ~/.ssh/config. */
async function windowUri(
  commands: Commands,
  tpu: ITPU,
  host: number
): Promise<vscode.Uri> {
  const args = ['vscode', '--remote', refOf(tpu), '--worker', `${host}`];
  let result = await run(commands, args);
  if (result.stderr.includes('ssh-config --write')) {
    await ask({
      title: trans.__('Let VS Code find %1 by its name?', tpu.name),
      text: trans.__(
        'This adds one line to ~/.ssh/config, which includes the entries of your TPUs.'
      ),
      accept: trans.__('Add')
    });
    await run(commands, ['ssh-config', '--write']);
    result = await run(commands, args);
  }
  const found = /^vscode:\/\/vscode-remote\/(.+?)(\/.*)$/m.exec(result.stdout);
  if (!found) {
    throw new Error(
      result.stderr.trim() || trans.__('The address of the host is not known.')
    );
  }
  const [, authority, path] = found;
  return vscode.Uri.from({
    scheme: 'vscode-remote',
    authority: decodeURIComponent(authority),
    path: decodeURIComponent(path)
  });
}

async function run(
  commands: Commands,
  args: string[]
): Promise<{ stdout: string; stderr: string }> {
  const python = await commands.python();
  const env = commands.sources.environment();
  return promisify(execFile)(python, [...CLI, ...args], {
    env
  }).catch(error => ({
    stdout: String(error.stdout ?? ''),
    stderr: String(error.stderr || error.message)
  }));
}

/** Copies the workspace to all hosts, and then each change, until the task is ended. */
export async function syncFolder(
  commands: Commands,
  node?: INode
): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const folder =
    folders.length > 1
      ? must(await vscode.window.showWorkspaceFolderPick())
      : folders[0];
  if (!folder) {
    throw new Error(trans.__('Open the folder that is to be copied.'));
  }
  const tpu = await commands.tpu(
    node,
    'sync',
    trans.__('Copy Workspace to Hosts')
  );
  await commands.runTask(
    trans.__('%1 to %2', folder.name, tpu.name),
    // With a / it would be a local path, as for scp.
    ['sync', folder.uri.fsPath, `${tpu.zone}~${tpu.name}`, '--watch'],
    folder.uri.fsPath
  );
}

/** The job of *node*, or one that the user picks. */
async function jobOf(
  commands: Commands,
  node: INode | undefined,
  suits: (job: IJob) => boolean,
  title: string
): Promise<{ job: IJob; tpu: ITPU }> {
  const { resources } = await commands.connection();
  if (node?.job && node.tpu) {
    return { job: node.job, tpu: node.tpu };
  }
  const items = resources.tpus.flatMap(tpu =>
    resources
      .jobsOf(tpu)
      .filter(suits)
      .map(job => ({
        label: job.name,
        description: `${tpu.name} · ${jobState(job)}`,
        job,
        tpu
      }))
  );
  if (!items.length) {
    throw new Error(
      trans.__('There is no such job. Start one with `jupyter tpu job start`.')
    );
  }
  return must(
    await vscode.window.showQuickPick(items, {
      title,
      placeHolder: trans.__('Job')
    })
  );
}

export async function followJob(
  commands: Commands,
  node?: INode
): Promise<void> {
  const { job, tpu } = await jobOf(
    commands,
    node,
    () => true,
    trans.__('Follow Job')
  );
  await commands.follow(trans.__('%1 on %2', job.name, tpu.name), [
    'job',
    'logs',
    refOf(tpu),
    job.id,
    '--follow'
  ]);
}

export async function stopJob(commands: Commands, node?: INode): Promise<void> {
  const { job, tpu } = await jobOf(
    commands,
    node,
    one => !isOver(one),
    trans.__('Stop Job')
  );
  await ask(stopQuestion(job));
  const { client } = await commands.connection();
  await client.jobs.stop(tpu, job.id);
}

export async function shutDownKernel(
  commands: Commands,
  node?: INode
): Promise<void> {
  const { client, resources } = await commands.connection();
  const kernel = must(node?.kernel);
  const tpu = must(node?.tpu);
  await ask(lossQuestion('kernel', tpu, kernelLoss(kernel)));
  const { id } = kernel;
  await client.kernels.shutDown(tpu, id);
  resources.setKernels(
    tpu,
    resources.kernels(tpu).filter(one => one.id !== id)
  );
}

export async function forwardPort(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(node, 'tunnel', trans.__('Forward Port'));
  const host = await commands.host(node, tpu);
  const typed = must(
    await vscode.window.showInputBox({
      title: trans.__('Forward a Port of %1', tpu.name),
      prompt: trans.__('Port on the host, such as 8080'),
      validateInput: value => portProblem(value) || undefined
    })
  );
  const { client, resources, sync } = await commands.connection();
  const tunnel = await client.tunnels.open(tpu, { port: Number(typed), host });
  resources.allTunnels.set(tunnel.id, tunnel);
  await sync.refresh(false);
  const address = `http://127.0.0.1:${tunnel.local_port}/`;
  const open = trans.__('Open in Browser');
  const answer = await vscode.window.showInformationMessage(
    trans.__(
      '127.0.0.1:%1 is forwarded to port %2 of host %3 of %4.',
      tunnel.local_port,
      tunnel.port,
      host,
      tpu.name
    ),
    open
  );
  if (answer === open) {
    await vscode.env.openExternal(vscode.Uri.parse(address));
  }
}

/** Opens what a tunnel or a web app leads to. */
export async function openPort(
  commands: Commands,
  node?: INode
): Promise<void> {
  if (node?.tunnel) {
    const address = `http://127.0.0.1:${node.tunnel.local_port}/`;
    await vscode.env.openExternal(vscode.Uri.parse(address));
  } else if (node?.app) {
    await openApp(commands, node.app);
  }
}

async function openApp(
  commands: Commands,
  { id }: Pick<IApp, 'id'>
): Promise<void> {
  const { client } = await commands.connection();
  const { url } = await client.apps.visit(id);
  await vscode.env.openExternal(vscode.Uri.parse(url, true));
}

export async function closePort(
  commands: Commands,
  node?: INode
): Promise<void> {
  const { client, resources, sync } = await commands.connection();
  const { app, tpu, tunnel } = node ?? {};
  const question = tunnel
    ? closeTunnelQuestion(tunnel)
    : app && closeAppQuestion(app);
  if (question) {
    await ask(question);
  }
  if (tunnel && tpu) {
    await client.tunnels.close(tpu, tunnel.id);
    resources.dropPort(tunnel.id);
  } else if (app) {
    await client.apps.close(app.id);
    resources.dropPort(app.id);
  }
  await sync.refresh(false);
}

/** Milliseconds: the first start of TensorBoard on a host installs it. */
const TENSORBOARD_LIMIT = 600_000;

export async function openTensorBoard(
  commands: Commands,
  node?: INode
): Promise<void> {
  const tpu = await commands.tpu(
    node,
    'tensorboard',
    trans.__('Open TensorBoard')
  );
  const host = await commands.host(node, tpu);
  const logdir = must(
    await vscode.window.showInputBox({
      title: trans.__('TensorBoard on %1', tpu.name),
      prompt: trans.__('Folder on the host, or gs://…'),
      value: '~/runs',
      validateInput: value =>
        value.trim() ? undefined : trans.__('A folder is needed.')
    })
  ).trim();
  const { client, resources, sync } = await commands.connection();
  const started = await client.tensorboard.open(tpu, {
    logdir,
    host,
    allow_missing: true
  });
  sync.putOperation(started);
  const ended = await vscode.window.withProgress(
    {
      location: vscode.ProgressLocation.Notification,
      title: trans.__('Opening TensorBoard on %1', tpu.name),
      cancellable: true
    },
    (_, token) =>
      new Promise<typeof started | null>(resolve => {
        const finish = (result: typeof started | null) => {
          sync.stateChanged.disconnect(look);
          clearTimeout(timer);
          resolve(result);
        };
        const timer = setTimeout(() => finish(null), TENSORBOARD_LIMIT);
        const look = () => {
          const now = resources.operation(started.id);
          if (now && now.state !== 'running') {
            finish(now);
          } else if (sync.isDisposed) {
            finish(null);
          }
        };
        sync.stateChanged.connect(look);
        token.onCancellationRequested(() => finish(null));
        look();
      })
  );
  if (ended?.problem) {
    throw Failure.of(ended.problem);
  }
  if (ended?.app) {
    await openApp(commands, { id: ended.app });
  }
}

// Which Jupyter server and which Python are used.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { Failure } from '../../../labextension/src/rest/failure';
import { NodeClient } from '../client';
import { installer, RUN_MODULE, succeeds } from '../localServer';
import { settings } from '../source';
import { ask, Commands, must } from './context';

export async function refresh({ session }: Commands): Promise<void> {
  const ready = session.connection;
  if (ready) {
    await ready.sync.refresh();
  } else if (vscode.workspace.isTrusted) {
    await session.search();
  }
}

export async function stopServer({ session }: Commands): Promise<void> {
  const connection = session.connection;
  if (!connection) {
    throw new Error(trans.__('No Jupyter server is used.'));
  }
  const { url } = connection.client.server;
  await ask({
    title: trans.__('Stop the Jupyter server at %1?', new URL(url).host),
    text: trans.__(
      'Kernels on TPUs continue, and the next server has them again. Local kernels end. No attempt of a hunt begins until a server runs.'
    ),
    accept: trans.__('Stop')
  });
  await connection.client.shutDown();
}

/** By the Python extension, unless the setting says which one; that goes first. */
export async function choosePython({ sources }: Commands): Promise<void> {
  const chosen = settings().get<string>('python') ?? '';
  const known = await vscode.commands.getCommands();
  if (!chosen && known.includes('python.setInterpreter')) {
    await vscode.commands.executeCommand('python.setInterpreter');
    return;
  }
  const title = trans.__('Python with jupyter-tpu');
  const other = { label: trans.__('Enter a Path…'), path: '' };
  const picked = must(
    await vscode.window.showQuickPick(
      [
        ...(await sources.interpreters()).map(({ from, path }) => ({
          label: path,
          description: from,
          path
        })),
        other
      ],
      { title, ignoreFocusOut: true }
    )
  );
  if (picked.path) {
    await sources.usePython(picked.path);
    return;
  }
  const python = must(
    await vscode.window.showInputBox({
      title,
      prompt: trans.__('Path of the program. Leave empty for the default.'),
      value: chosen,
      placeHolder: '/path/to/environment/bin/python',
      ignoreFocusOut: true
    })
  );
  await sources.usePython(python.trim());
}

/** In a terminal, where the user sees what happens. */
export async function install(commands: Commands): Promise<void> {
  const { session, sources } = commands;
  const python = session.python || (await sources.python());
  const environment = sources.environment();
  const [program, args] = installer(
    python,
    await succeeds(python, [...RUN_MODULE, 'pip', '--version'], environment),
    await succeeds('uv', ['--version'], environment)
  );
  const name = trans.__('Install jupyter-tpu');
  const { ended } = await commands.runProgram(name, program, args);
  await ended;
  // Says again what is missing, if it has failed.
  const finding = await session.search();
  if (!finding && session.state === 'stopped') {
    await session.search(true);
  }
}

/** Takes the address and the token of a server that runs elsewhere; empty: Python's own again. */
export async function useServer({ session, sources }: Commands): Promise<void> {
  const url = must(
    await vscode.window.showInputBox({
      title: trans.__('Use Another Jupyter Server'),
      prompt: trans.__(
        'Its address. Leave empty for the server of your Python.'
      ),
      placeHolder: 'http://127.0.0.1:8888/',
      ignoreFocusOut: true,
      validateInput: value =>
        !value || /^https?:\/\/[^/]+/.test(value)
          ? undefined
          : trans.__('An address such as http://127.0.0.1:8888/')
    })
  ).trim();
  if (!url) {
    await sources.use(null);
    await session.search();
    return;
  }
  const token = must(
    await vscode.window.showInputBox({
      title: trans.__('Token of the Jupyter Server'),
      prompt: trans.__(
        '`jupyter server list` shows it. It is kept in VS Code’s secret storage.'
      ),
      password: true,
      ignoreFocusOut: true
    })
  ).trim();
  const address = new URL(url);
  const path = address.pathname.replace(/\/(lab|tree)\/?$/, '/');
  const server = {
    url: `${address.origin}${path.replace(/\/*$/, '/')}`,
    token,
    pid: 0
  };
  try {
    await new NodeClient(server).status(); // says why not, before anything is kept
  } catch (error) {
    throw error instanceof Failure &&
      ['DENIED', 'PERMISSION'].includes(error.reason)
      ? new Error(
          trans.__('The server at %1 does not accept this token.', address.host)
        )
      : error;
  }
  await sources.use(server);
  await session.search();
}

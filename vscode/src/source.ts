// Which server to use: the one of the user's Python, or one whose address the user has given.

import { homedir } from 'node:os';

import * as vscode from 'vscode';

import { trans } from '../../labextension/src/language/translation';
import { IServer } from './client';
import { IInterpreter, interpreters } from './interpreters';
import { output } from './localServer';
import { Source } from './session';

const PYTHON_EXTENSION = 'ms-python.python';
/** Where the address of another server is kept; its token is in the SecretStorage. */
const ADDRESS = 'jupyterTpu.server';

/** As much as we need of the Python extension. */
interface IPythonAPI {
  environments: {
    known?: readonly { executable: { uri?: vscode.Uri } }[];
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: {
      path: string;
    }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

export class Sources {
  constructor(private _context: vscode.ExtensionContext) {}

  /** Raises nothing that is only missing: the program that is run says that. */
  async source(): Promise<Source> {
    const server = await this._server();
    return server
      ? { server }
      : {
          python: await this.python(),
          environment: this.environment(),
          variables: this.variables()
        };
  }

  /** The Python of the setting, else that of the Python extension, else `python3`. */
  async python(): Promise<string> {
    const chosen = settings().get<string>('python')?.trim();
    if (chosen) {
      return chosen.replace(/^~(?=\/)/, process.env.HOME ?? '~');
    }
    const api = await pythonAPI();
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    try {
      const active = api?.environments.getActiveEnvironmentPath(folder);
      const found =
        active && (await api?.environments.resolveEnvironment(active));
      if (found?.executable.uri) {
        return found.executable.uri.fsPath;
      }
    } catch {
      // One without Python, or an older Python extension.
    }
    return process.platform === 'win32' ? 'python' : 'python3';
  }

  /** The Pythons of this computer, those that the Python extension knows too. */
  async interpreters(): Promise<IInterpreter[]> {
    const known = (await pythonAPI())?.environments.known ?? [];
    const paths = known.flatMap(({ executable: { uri } }) => uri?.fsPath ?? []);
    const environment = this.environment();
    const found = await interpreters({
      home: homedir(),
      folders: (vscode.workspace.workspaceFolders ?? []).map(
        ({ uri }) => uri.fsPath
      ),
      environment,
      windows: process.platform === 'win32',
      launcher: () =>
        output('py', ['-0p'], environment).then(
          ({ stdout }) => stdout,
          () => '' // it is not installed
        )
    });
    const others = found.filter(({ path }) => !paths.includes(path));
    return [...paths.map(path => ({ path, from: 'Python' })), ...others];
  }

  /** What Python gets: this process's environment and the user's setting, and VS Code's language. */
  environment(): NodeJS.ProcessEnv {
    return {
      JUPYTER_TPU_LANG: vscode.env.language,
      ...process.env,
      ...this.variables()
    };
  }

  variables(): Record<string, string> {
    return settings().get<Record<string, string>>('environment') ?? {};
  }

  /** Uses the server at *url* from now on; null: the one of Python. */
  async use(server: Pick<IServer, 'url' | 'token'> | null): Promise<void> {
    const before = this.givenUrl;
    if (before) {
      this._tokens.delete(before);
      await Promise.resolve(this._context.secrets.delete(before)).catch(
        () => undefined
      );
    }
    await this._context.globalState.update(ADDRESS, server?.url);
    if (server) {
      this._tokens.set(server.url, server.token);
      try {
        await this._context.secrets.store(server.url, server.token);
      } catch {
        void vscode.window.showWarningMessage(
          trans.__(
            'This computer can’t store secrets, so the token is kept until you close this window.'
          )
        );
      }
    }
  }

  /** The address of the server that the user has given; undefined: Python finds it. */
  get givenUrl(): string | undefined {
    return this._context.globalState.get<string>(ADDRESS);
  }

  /** Uses *python* from now on, in this workspace if that has one of its own. */
  async usePython(python: string): Promise<void> {
    const { Global, Workspace } = vscode.ConfigurationTarget;
    const own = settings().inspect('python')?.workspaceValue !== undefined;
    await settings().update('python', python, own ? Workspace : Global);
  }

  /** Another Python, or other variables. */
  async onDidChange(listener: () => void): Promise<void> {
    this._context.subscriptions.push(
      vscode.workspace.onDidChangeConfiguration(event => {
        if (
          ['python', 'environment'].some(name =>
            event.affectsConfiguration(`jupyterTpu.${name}`)
          )
        ) {
          listener();
        }
      })
    );
    const api = await pythonAPI();
    const changed =
      api?.environments.onDidChangeActiveEnvironmentPath?.(listener);
    if (changed) {
      this._context.subscriptions.push(changed);
    }
  }

  private async _server(): Promise<IServer | null> {
    const url = this.givenUrl;
    if (!url) {
      return null;
    }
    let token = this._tokens.get(url);
    if (token === undefined) {
      token = await Promise.resolve(this._context.secrets.get(url)).catch(
        () => undefined
      );
    }
    if (token === undefined) {
      throw new Error(
        trans.__(
          'The token of %1 is not stored. Run “TPU: Use Another Jupyter Server” again.',
          url
        )
      );
    }
    return { url, token, pid: 0 };
  }

  /** Those of this window, where secrets can't be stored. */
  private _tokens = new Map<string, string>();
}

export function settings(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration('jupyterTpu');
}

async function pythonAPI(): Promise<IPythonAPI | null> {
  const extension = vscode.extensions.getExtension(PYTHON_EXTENSION);
  try {
    return extension ? ((await extension.activate()) as IPythonAPI) : null;
  } catch {
    return null; // it says why itself
  }
}

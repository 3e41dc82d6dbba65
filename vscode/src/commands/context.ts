// What all commands use: the server, questions, and programs that run in a terminal.

import * as vscode from 'vscode';

import { IQuestion, joined } from '../../../labextension/src/language/text';
import { trans } from '../../../labextension/src/language/translation';
import {
  Action,
  availableActions
} from '../../../labextension/src/model/availableActions';
import { tpuStatus } from '../../../labextension/src/model/tpuLabels';
import { ITPU } from '../../../labextension/src/rest/api';
import { failureLine } from '../../../labextension/src/rest/failureText';
import {
  confirmed,
  keyOf,
  namePrompt
} from '../../../labextension/src/rest/tpuRef';
import { explanation } from '../explanation';
import { CLI, findServer } from '../localServer';
import { INode } from '../nodes';
import { Row } from '../rows';
import { IConnection, Session } from '../session';
import { Sources } from '../source';

/** A command was given up by the user. */
export class Given extends Error {}

export class Commands {
  constructor(
    readonly session: Session,
    readonly sources: Sources
  ) {}

  /** Registers a command; *run* gets the node of the tree, or nothing from the palette. */
  register(
    name: string,
    run: (node: INode | undefined) => Promise<unknown> | unknown
  ): vscode.Disposable {
    return vscode.commands.registerCommand(
      `jupyterTpu.${name}`,
      async (row?: Row) => {
        try {
          await run(row?.node);
        } catch (error) {
          if (!(error instanceof Given)) {
            void vscode.window.showErrorMessage(failureLine(error));
          }
        }
      }
    );
  }

  /** The server, started now if it has to be. Throws where there is none. */
  async connection(): Promise<IConnection> {
    if (!vscode.workspace.isTrusted) {
      throw new Error(
        trans.__(
          'Trust this workspace first: nothing is started in it until then.'
        )
      );
    }
    const ready = this.session.connection;
    if (ready) {
      return ready;
    }
    const found = await vscode.window.withProgress(
      {
        location: vscode.ProgressLocation.Notification,
        title: trans.__('Starting the Jupyter server of jupyter-tpu')
      },
      () => this.session.connect()
    );
    if (!found) {
      throw new Error(explanation(this.session));
    }
    return found;
  }

  /** The TPU of *node*, else one that the user picks among those for which *action* is possible. */
  async tpu(
    node: INode | undefined,
    action: Action,
    title: string
  ): Promise<ITPU> {
    const { client, resources } = await this.connection();
    if (node?.tpu) {
      return resources.tpu(keyOf(node.tpu)) ?? node.tpu;
    }
    const { tpus } = await client.tpus();
    const possible = tpus.filter(tpu =>
      availableActions(tpu, resources.allOf(tpu)).includes(action)
    );
    if (!possible.length) {
      throw new Error(
        tpus.length
          ? trans.__('%1: not possible with any of your TPUs now.', title)
          : trans.__('You have no TPU. Create one with “TPU: Create”.')
      );
    }
    const picked = await vscode.window.showQuickPick(
      possible.map(tpu => ({
        label: tpu.name,
        description: `${tpuStatus(tpu).label} · ${tpu.type} · ${tpu.zone}`,
        tpu
      })),
      { title, placeHolder: 'TPU' }
    );
    return must(picked).tpu;
  }

  /** A host of *tpu*: that of *node*, the only one, or one that the user picks. */
  async host(node: INode | undefined, tpu: ITPU): Promise<number> {
    if (node?.host !== undefined || tpu.hosts.length < 2) {
      return node?.host ?? 0;
    }
    const picked = await vscode.window.showQuickPick(
      tpu.hosts.map(host => ({
        label: trans.__('Host %1', host.index),
        description: host.external_address || host.internal_address,
        index: host.index
      })),
      { title: tpu.name, placeHolder: trans.__('Host') }
    );
    return must(picked).index;
  }

  /** Asks for *tpu*'s name where it is another person's; {}: it is not. */
  async confirmName(tpu: ITPU): Promise<{ confirm_name?: string }> {
    if (!tpu.not_yours) {
      return {};
    }
    const typed = await vscode.window.showInputBox({
      prompt: namePrompt(tpu)
    });
    return confirmed(must(typed).trim());
  }

  /**
   * The Python that runs `jupyter tpu` for this window.
   *
   * Throws if it would not use the server of this window, because that runs elsewhere.
   */
  async python(): Promise<string> {
    const python = await this.sources.python();
    const given = this.sources.givenUrl;
    if (given) {
      const finding = await findServer(
        python,
        false,
        this.sources.environment()
      );
      if (finding.state !== 'running' || finding.server.url !== given) {
        throw new Error(
          trans.__(
            'This command works with a Jupyter server on this computer, but this window uses the one at %1. To return to your own server, run “TPU: Use Another Jupyter Server” and leave the address empty.',
            new URL(given).host
          )
        );
      }
    }
    return python;
  }

  /** A shell, or another program that is used in its terminal, which closes with it. */
  async openTerminal(name: string, args: string[]): Promise<void> {
    const terminal = vscode.window.createTerminal({
      name,
      shellPath: await this.python(),
      shellArgs: [...CLI, ...args],
      env: this.sources.variables(),
      iconPath: new vscode.ThemeIcon('server-environment')
    });
    terminal.show();
  }

  /** `jupyter tpu` with *args*; its output stays after its end. */
  async runTask(name: string, args: string[], cwd?: string): Promise<void> {
    await this.runProgram(name, await this.python(), [...CLI, ...args], cwd);
  }

  /** The same, for what goes on: a task would have no text after a reload of the window. */
  async follow(name: string, args: string[]): Promise<void> {
    await this._showProgram(name, await this.python(), [...CLI, ...args]);
  }

  private async _showProgram(
    name: string,
    program: string,
    args: string[]
  ): Promise<vscode.Terminal> {
    const terminal = vscode.window.createTerminal({
      name,
      shellPath: await this.sources.python(),
      shellArgs: ['-c', HOLD, holdText(), program, ...args],
      env: this.sources.variables()
    });
    terminal.show();
    return terminal;
  }

  /** Runs a program as a task, and resolves with what waits for its end. */
  async runProgram(
    name: string,
    program: string,
    args: string[],
    cwd?: string
  ): Promise<{ ended: Promise<void> }> {
    const env = this.sources.variables();
    if (!vscode.workspace.workspaceFolders?.length) {
      // VS Code starts no task in a window without a folder, and does not say so.
      const terminal = await this._showProgram(name, program, args);
      return { ended: endOf(vscode.window.onDidCloseTerminal, terminal) };
    }
    const task = new vscode.Task(
      { type: 'jupyter-tpu', name },
      vscode.TaskScope.Workspace,
      name,
      'TPU',
      new vscode.ProcessExecution(program, args, { cwd, env }),
      []
    );
    task.presentationOptions = {
      focus: true,
      panel: vscode.TaskPanelKind.Dedicated,
      reveal: vscode.TaskRevealKind.Always
    };
    const execution = await vscode.tasks.executeTask(task);
    const { onDidEndTask } = vscode.tasks;
    return {
      ended: new Promise(resolve => {
        const listener = onDidEndTask(event => {
          if (event.execution === execution) {
            listener.dispose();
            resolve();
          }
        });
      })
    };
  }
}

/** Keeps a terminal, which closes with its program, until its user has read what that wrote. */
const HOLD = `import subprocess, sys
code = subprocess.call(sys.argv[2:])
input(sys.argv[1].replace("%1", str(code)) + " ")`;

const holdText = () =>
  trans.__('Exit code %1. Press Enter to close this terminal.');

/** Resolves when *event* has come for *subject*. */
function endOf<T>(event: vscode.Event<T>, subject: T): Promise<void> {
  return new Promise(resolve => {
    const listener = event(other => {
      if (other === subject) {
        listener.dispose();
        resolve();
      }
    });
  });
}

/** What the user has entered or picked; throws `Given` if that is nothing. */
export function must<T>(entered: T | undefined): T {
  if (entered === undefined) {
    throw new Given();
  }
  return entered;
}

/** Asks before something is lost or costs money; throws `Given` unless the user agrees. */
export async function ask(
  { accept, text, title }: IQuestion,
  ...above: string[]
): Promise<void> {
  const answer = await vscode.window.showWarningMessage(
    title,
    { modal: true, detail: joined('\n', ...above, text) },
    accept
  );
  must(answer);
}

/** How the command line names a TPU. */
export function refOf(tpu: ITPU): string {
  return `${tpu.zone}/${tpu.name}`;
}

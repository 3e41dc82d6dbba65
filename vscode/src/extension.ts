// Wires the parts of the extension.

import * as vscode from 'vscode';

import { trans } from '../../labextension/src/language/translation';
import { operationTitle } from '../../labextension/src/model/operationLabels';
import { IOperation } from '../../labextension/src/rest/api';
import { Failure } from '../../labextension/src/rest/failure';
import { failureLine } from '../../labextension/src/rest/failureText';
import { Collection } from './collection';
import { Commands } from './commands/context';
import { createTPU, startHunt } from './commands/create';
import * as hosts from './commands/hosts';
import * as lifecycle from './commands/lifecycle';
import { runFile, runOnNewTPU } from './commands/runFile';
import * as servers from './commands/servers';
import { explanation, portTaken } from './explanation';
import { KnownServer } from './knownServer';
import { loadLanguage } from './language';
import { INode, nameOf, remedyNodes, summary } from './nodes';
import { Notebooks } from './notebook/notebooks';
import { Row } from './rows';
import { IConnection, Session } from './session';
import { Sources } from './source';
import { Tree } from './tree';

export async function activate(
  context: vscode.ExtensionContext
): Promise<void> {
  loadLanguage();
  const sources = new Sources(context);
  // "Jupyter TPU" in the view Output: which server was found, by which Python.
  const log = vscode.window.createOutputChannel('Jupyter TPU', { log: true });
  const session = new Session(
    () => sources.source(),
    line => log.info(line),
    new KnownServer(context.workspaceState)
  );
  const commands = new Commands(session, sources);
  const tree = new Tree(session, context.workspaceState);
  const view = vscode.window.createTreeView('jupyterTpu', {
    treeDataProvider: tree
  });
  view.onDidExpandElement(({ element }) => void tree.keep(element, true));
  view.onDidCollapseElement(({ element }) => void tree.keep(element, false));
  const item = vscode.window.createStatusBarItem(
    'jupyterTpu',
    vscode.StatusBarAlignment.Left
  );
  item.name = 'Cloud TPU';
  item.command = 'jupyterTpu.focus';
  const collection = new Collection(session);
  const notebooks = new Notebooks(session, context.workspaceState, line =>
    log.info(line)
  );
  context.subscriptions.push(log, notebooks, session, view, item, collection);

  const show = () => {
    showState(session, view);
    showItem(session, item);
  };
  let observed: IConnection | null = null;
  session.stateChanged.connect(() => {
    const connection = session.connection;
    if (connection && connection !== observed) {
      observed = connection;
      observe(connection);
    }
    show();
  });
  show();
  session.portTaken.connect((_, { url }) => {
    void vscode.window.showWarningMessage(portTaken(url));
  });

  const run: { [name: string]: (node?: INode) => unknown } = {
    create: () => createTPU(commands),
    hunt: () => startHunt(commands),
    connect: node => lifecycle.connect(commands, node),
    disconnect: node => lifecycle.disconnect(commands, node),
    start: node => lifecycle.start(commands, node),
    stop: node => lifecycle.stop(commands, node),
    delete: node => lifecycle.remove(commands, node),
    cancel: node => lifecycle.cancelOperation(commands, node),
    showLog: node => lifecycle.showLog(commands, node),
    openTerminal: node => hosts.openTerminal(commands, node),
    openWindow: node => hosts.openWindow(commands, node),
    runFile: node => runFile(commands, node),
    runOnNewTPU: () => runOnNewTPU(commands),
    syncFolder: node => hosts.syncFolder(commands, node),
    followJob: node => hosts.followJob(commands, node),
    stopJob: node => hosts.stopJob(commands, node),
    shutDownKernel: node => hosts.shutDownKernel(commands, node),
    forwardPort: node => hosts.forwardPort(commands, node),
    openPort: node => hosts.openPort(commands, node),
    closePort: node => hosts.closePort(commands, node),
    openTensorBoard: node => hosts.openTensorBoard(commands, node),
    refresh: () => servers.refresh(commands),
    startServer: () => commands.connection(),
    stopServer: () => servers.stopServer(commands),
    choosePython: () => servers.choosePython(commands),
    install: () => servers.install(commands),
    useServer: () => servers.useServer(commands),
    restartKernel: () => notebooks.restart(),
    restartAndRunAll: () => notebooks.restart(true)
  };
  for (const [name, action] of Object.entries(run)) {
    context.subscriptions.push(commands.register(name, action));
  }

  const look = () => {
    if (vscode.workspace.isTrusted) {
      void session.search();
    }
  };
  context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(look));
  if (vscode.workspace.isTrusted) {
    // It activates the Python extension.
    void sources.onDidChange(look);
  }
  look();
}

/** The welcome page of the view depends on the state, and its message on what is wrong. */
function showState(session: Session, view: vscode.TreeView<Row>): void {
  const { connection, state } = session;
  const problem = connection?.sync.problem;
  void vscode.commands.executeCommand('setContext', 'jupyterTpu.state', state);
  void vscode.commands.executeCommand(
    'setContext',
    'jupyterTpu.loaded',
    connection?.sync.phase === 'ready'
  );
  view.message =
    problem instanceof Failure
      ? failureLine(problem)
      : remedyNodes(state).length
        ? explanation(session)
        : undefined; // VS Code shows no welcome page below a message
  view.description = connection
    ? new URL(connection.client.server.url).host
    : '';
}

function showItem(session: Session, item: vscode.StatusBarItem): void {
  const { connection } = session;
  if (connection?.sync.phase !== 'ready') {
    item.hide(); // nothing to say
    return;
  }
  const { text, tone } = summary(connection.resources);
  item.text = `$(${tone === 'moving' ? 'sync~spin' : 'server-environment'}) ${text}`;
  item.tooltip = trans.__('Cloud TPUs');
  item.backgroundColor =
    tone === 'bad'
      ? new vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
  item.show();
}

/** What a window says of a server without being asked. */
function observe({ events, sync }: IConnection): void {
  sync.operationEnded.connect((_, operation) => notifyEnd(operation));
  // The Jupyter extension only offers its kernel picker again, and says that a kernel is dead.
  events.refused.connect((_, { hint, message }) => {
    void vscode.window.showErrorMessage(
      trans.__(
        'The kernel could not be started. %1',
        `${message} ${hint}`.trim()
      )
    );
  });
  sync.kernelProblem.connect((_, kernel) => {
    if (kernel.state === 'dead' && kernel.problem) {
      const why = failureLine(Failure.of(kernel.problem));
      void vscode.window.showWarningMessage(
        trans.__('%1: %2', nameOf(kernel), why)
      );
    }
  });
}

/** The kinds whose success is news; of all others only a failure is. */
const NEWS: IOperation['kind'][] = [
  'connect',
  'create',
  'delete',
  'hunt',
  'start',
  'stop'
];

function notifyEnd(operation: IOperation): void {
  const title = operationTitle(operation);
  const { id, kind, problem, state } = operation;
  if (state === 'failed') {
    const log = trans.__('Show Log');
    const why = problem ? failureLine(Failure.of(problem)) : '';
    void vscode.window
      .showErrorMessage(
        why ? trans.__('%1. %2', title, why) : trans.__('%1.', title),
        log
      )
      .then(answer => {
        if (answer === log) {
          void vscode.commands.executeCommand('jupyterTpu.showLog', {
            node: { operation: { id } }
          });
        }
      });
  } else if (state === 'done' && NEWS.includes(kind)) {
    void vscode.window.showInformationMessage(trans.__('%1.', title));
  }
}

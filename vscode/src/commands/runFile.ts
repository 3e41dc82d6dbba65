// Running the open Python file: on the hosts of a TPU, or on a TPU that is created for it.

import * as vscode from 'vscode';

import { trans, usd } from '../../../labextension/src/language/translation';
import { INode } from '../nodes';
import { ask, Commands, must, refOf } from './context';
import {
  loadCatalog,
  pickTier,
  pickType,
  pickZone,
  quoteLines
} from './create';

interface IFile {
  path: string;
  /** As it is shown: inside the workspace. */
  label: string;
  /** The workspace's folder. */
  folder?: string;
}

/** The file in front. */
function openFile(): vscode.TextDocument {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== 'python' || document.uri.scheme !== 'file') {
    throw new Error(
      trans.__('Open a Python file that is saved on this computer.')
    );
  }
  return document;
}

async function saved(document: vscode.TextDocument): Promise<IFile> {
  if (!(await document.save())) {
    throw new Error(trans.__('The file could not be saved.'));
  }
  return {
    path: document.uri.fsPath,
    label: vscode.workspace.asRelativePath(document.uri),
    folder: vscode.workspace.getWorkspaceFolder(document.uri)?.uri.fsPath
  };
}

/** Runs the open file on all hosts of a TPU; its project is copied there first. */
export async function runFile(commands: Commands, node?: INode): Promise<void> {
  const document = openFile();
  const tpu = await commands.tpu(
    node,
    'run',
    trans.__('Run File on All Hosts')
  );
  const { folder, label, path } = await saved(document);
  const args = ['run', '--tpu', refOf(tpu), '--no-stdin', path];
  await commands.runTask(trans.__('%1 on %2', label, tpu.name), args, folder);
}

/** Hours for which a file may run, and what else the TPU exists for, at most. */
const LIMITS = [0.5, 1, 2, 6, 12, 24];
const SETUP = 0.5;

/** Creates a TPU, runs the open file on all its hosts, and deletes the TPU, whatever happens. */
export async function runOnNewTPU(commands: Commands): Promise<void> {
  const document = openFile();
  const { client } = await commands.connection();
  const catalog = await loadCatalog(commands);
  const type = await pickType(catalog);
  const zone = await pickZone(catalog, type);
  const tier = await pickTier(catalog, type, zone);
  const request = { name: 'once', type: type.name, zone, tier };
  const quote = await client.quote(request);
  const price = quote.cost.usd_per_hour;
  if (price === null) {
    throw new Error(
      trans.__(
        'The price of %1 is not known. Use `jupyter tpu run --once` with `--max-price` in a terminal.',
        type.name
      )
    );
  }
  const limits = LIMITS.map(hours => {
    const most = Math.ceil(price * (hours + SETUP) * 100) / 100;
    return {
      label:
        hours < 1 ? trans.__('%1 min', hours * 60) : trans.__('%1 h', hours),
      description: quote.emulated
        ? trans.__('emulated: free')
        : trans.__('at most %1', usd(most)),
      minutes: hours * 60,
      most
    };
  });
  const {
    label: time,
    minutes,
    most
  } = must(
    await vscode.window.showQuickPick(limits, {
      title: trans.__('Time Limit'),
      placeHolder: trans.__('The file is stopped after this time')
    })
  );
  const { folder, label, path } = await saved(document);
  if (quote.question) {
    const end = trans.__(
      'The file is stopped if it has not ended after %1. Then the TPU is deleted. It costs at most %2.',
      time,
      usd(most)
    );
    const question = {
      title: trans.__('Create a TPU and run %1 on it?', label),
      text: end,
      accept: trans.__('Create and Run')
    };
    await ask(question, ...quoteLines(quote));
  }
  await commands.runTask(
    trans.__('%1 on a new %2', label, type.name),
    [
      ...['run', '--once', '--type', type.name, '--zone', zone, '--no-stdin'],
      ...(tier === 'spot' ? ['--spot'] : []),
      ...['--timeout', `${minutes}m`],
      ...(quote.question ? ['--max-cost', `${most}`] : ['--yes']),
      path
    ],
    folder
  );
}

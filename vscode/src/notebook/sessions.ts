// Kernels and sessions of the Jupyter server, for notebooks: a session has the path of its notebook, so
// that JupyterLab and other windows use the same kernel.

import { createHash } from 'node:crypto';
import { basename, dirname, isAbsolute, relative, sep } from 'node:path';
import * as vscode from 'vscode';

import { NodeClient } from '../client';

interface ISession {
  id: string;
  path: string;
  kernel: { id: string; name: string } | null;
}

/** A header: the notebook's folder. As in server/kernel_errors.py. */
const FOLDER = 'X-Jupyter-TPU-Folder';

/** Kernels that run where this extension is needed: on TPUs. */
const PROVISIONER = 'jupyter-tpu';

export interface IKernelspec {
  name: string;
  label: string;
}

/** The kernelspecs of TPUs. */
export async function kernelspecs(client: NodeClient): Promise<IKernelspec[]> {
  const { kernelspecs } = await client.jupyter<{
    kernelspecs: {
      [name: string]: {
        spec: {
          display_name: string;
          metadata?: { kernel_provisioner?: { provisioner_name?: string } };
        };
      };
    };
  }>('GET', 'kernelspecs');
  return Object.entries(kernelspecs)
    .filter(
      ([, { spec }]) =>
        spec.metadata?.kernel_provisioner?.provisioner_name === PROVISIONER
    )
    .map(([name, { spec }]) => ({ name, label: spec.display_name }))
    .sort((one, other) => one.label.localeCompare(other.label));
}

/** The kernel that a notebook uses, by any client; null: none, or one of another kernelspec. */
export async function runningKernel(
  client: NodeClient,
  notebook: vscode.Uri,
  kernelspec: string
): Promise<string | null> {
  const sessions = await client.jupyter<ISession[]>('GET', 'sessions');
  const path = pathOf(notebook, client);
  const kernel = sessions.find(one => one.path === path)?.kernel;
  return kernel?.name === kernelspec ? kernel.id : null;
}

/** The same, started if there is none. A kernel of another kernelspec is replaced, as in JupyterLab. */
export async function startKernel(
  client: NodeClient,
  notebook: vscode.Uri,
  name: string
): Promise<string> {
  const path = pathOf(notebook, client);
  const folder = folderOf(notebook, client);
  const headers = folder ? { [FOLDER]: encodeURIComponent(folder) } : {};
  const kernel = { name };
  const wanted = { path, name: basename(path), type: 'notebook', kernel };
  let session = await client.jupyter<ISession>(
    'POST',
    'sessions',
    wanted,
    headers
  );
  if (session.kernel?.name !== name) {
    const { id } = session;
    session = await client.jupyter(
      'PATCH',
      `sessions/${id}`,
      { kernel },
      headers
    );
  }
  return session.kernel!.id;
}

/** The folder of a notebook on the server's computer; undefined: it is on another one. */
function folderOf(
  notebook: vscode.Uri,
  { server }: NodeClient
): string | undefined {
  if (!server.pid) {
    return undefined;
  }
  return notebook.scheme === 'file'
    ? dirname(notebook.fsPath)
    : vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
}

/**
 * A notebook's path as the server knows it: relative to its root, if it is below. Others have a path that
 * no other notebook has.
 */
function pathOf(notebook: vscode.Uri, { server }: NodeClient): string {
  const path = notebook.fsPath;
  if (notebook.scheme === 'file' && server.root) {
    const inside = relative(server.root, path);
    return inside.startsWith('..') || isAbsolute(inside)
      ? path
      : inside.split(sep).join('/');
  }
  const hash = createHash('sha256')
    .update(`${vscode.env.machineId} ${notebook}`)
    .digest('hex');
  const uuid = [8, 12, 16, 20, 32]
    .map((end, index, ends) => hash.slice(ends[index - 1] ?? 0, end))
    .join('-');
  return `${basename(path, '.ipynb')}-${uuid}.ipynb`;
}

// What a notebook's file says of its kernel.

import * as vscode from 'vscode';

interface INotebookMetadata {
  kernelspec?: { name?: string };
  language_info?: object;
  widgets?: { [mime: string]: object };
}

/** The kernelspec that a notebook names. */
export function kernelspecOf(
  notebook: vscode.NotebookDocument
): string | undefined {
  const { metadata } = notebook.metadata as { metadata?: INotebookMetadata };
  return metadata?.kernelspec?.name;
}

/** The state of widgets that JupyterLab has saved. */
export function savedWidgets(
  notebook: vscode.NotebookDocument
): object | undefined {
  const { metadata } = notebook.metadata as { metadata?: INotebookMetadata };
  return metadata?.widgets?.['application/vnd.jupyter.widget-state+json'];
}

const changes = new WeakMap<vscode.NotebookDocument, Promise<void>>();

/** Changes fields, with the others kept: so one change after the other. */
export function setMetadata(
  notebook: vscode.NotebookDocument,
  fields: INotebookMetadata
): Promise<void> {
  const change = (changes.get(notebook) ?? Promise.resolve()).then(() =>
    changeMetadata(notebook, fields)
  );
  changes.set(
    notebook,
    change.catch(() => undefined)
  );
  return change;
}

async function changeMetadata(
  notebook: vscode.NotebookDocument,
  fields: INotebookMetadata
): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  const metadata = { ...notebook.metadata.metadata, ...fields };
  edit.set(notebook.uri, [
    vscode.NotebookEdit.updateNotebookMetadata({
      ...notebook.metadata,
      metadata
    })
  ]);
  await vscode.workspace.applyEdit(edit);
}

/** Names the kernelspec, as JupyterLab does; cells without a language become Python. */
export async function useKernelspec(
  notebook: vscode.NotebookDocument,
  name: string,
  display_name: string
): Promise<void> {
  if (kernelspecOf(notebook) !== name) {
    const kernelspec = { display_name, language: 'python', name };
    await setMetadata(notebook, { kernelspec });
  }
  for (const { document, kind } of notebook.getCells()) {
    if (
      kind === vscode.NotebookCellKind.Code &&
      document.languageId === 'plaintext'
    ) {
      await vscode.languages.setTextDocumentLanguage(document, 'python');
    }
  }
}

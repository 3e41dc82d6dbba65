// An output of a notebook's file as VS Code shows and saves it: its built-in extension for .ipynb reads
// the metadata that are set here.

import * as vscode from 'vscode';

import { Entry, IOutput, MimeBundle } from './outputs';

/** The first one that can be shown is. */
const ORDER = [
  /^application\/(vnd|vdom)\./,
  /^application\/geo\+json$/,
  /^text\/html$/,
  /^application\/javascript$/,
  /^image\/gif$/,
  /^text\/(latex|markdown)$/,
  /^image\//,
  /^application\/json$/,
  /^text\/plain$/
];

export function outputOf(entry: Entry): vscode.NotebookCellOutput {
  return new vscode.NotebookCellOutput(
    itemsOf(entry),
    metadataOf(entry.output)
  );
}

/** Of a stream: all of it. */
export function itemsOf({
  output,
  stream
}: Entry): vscode.NotebookCellOutputItem[] {
  switch (output.output_type) {
    case 'stream':
      return [streamItem(output.name, stream.text)];
    case 'error': {
      const { ename: name, evalue: message, traceback } = output;
      const stack = traceback.join('\n');
      return [vscode.NotebookCellOutputItem.error({ name, message, stack })];
    }
    default:
      return itemsOfBundle(output.data);
  }
}

export function streamItem(
  name: string,
  text: string
): vscode.NotebookCellOutputItem {
  const { stderr, stdout } = vscode.NotebookCellOutputItem;
  return name === 'stderr' ? stderr(text) : stdout(text);
}

function itemsOfBundle(data: MimeBundle): vscode.NotebookCellOutputItem[] {
  const place = (mime: string) => {
    const index = ORDER.findIndex(one => one.test(mime));
    return index < 0 ? ORDER.length : index;
  };
  return Object.entries(data)
    .sort(([one], [other]) => place(one) - place(other))
    .map(([mime, value]) => itemOf(mime, value));
}

function itemOf(mime: string, value: unknown): vscode.NotebookCellOutputItem {
  const text =
    Array.isArray(value) && !mime.includes('json') ? value.join('') : value;
  if (typeof text !== 'string') {
    const json = new TextEncoder().encode(JSON.stringify(value));
    return new vscode.NotebookCellOutputItem(json, mime);
  }
  if (mime.startsWith('image/') && mime !== 'image/svg+xml') {
    return new vscode.NotebookCellOutputItem(Buffer.from(text, 'base64'), mime);
  }
  return vscode.NotebookCellOutputItem.text(text, mime);
}

function metadataOf(output: IOutput): { [key: string]: unknown } {
  switch (output.output_type) {
    case 'stream':
      return { outputType: 'stream' };
    case 'error':
      return { outputType: 'error', originalError: output };
    default:
      return {
        outputType: output.output_type,
        executionCount: output.execution_count,
        metadata: output.metadata,
        ...(output.transient ? { transient: output.transient } : {})
      };
  }
}

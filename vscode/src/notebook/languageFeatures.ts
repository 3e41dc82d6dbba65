// Completions, documentation and signatures from the kernel, which knows what its variables are.

import * as vscode from 'vscode';

import { NotebookKernel } from './notebookKernel';

/** Language servers for Python: where there is one, it answers. */
const LANGUAGE_SERVERS = [
  'ms-python.vscode-pylance',
  'ms-python.python',
  'detachhead.basedpyright',
  'ms-pyright.pyright',
  'anysphere.cursorpyright',
  'astral-sh.ty'
];

const SELECTOR = { notebookType: 'jupyter-notebook', language: 'python' };

type KernelOf = (document: vscode.TextDocument) => NotebookKernel | undefined;

interface IInspectReply {
  found: boolean;
  data: { 'text/plain'?: string };
}

/** *kernelOf*: the kernel of a cell's notebook. */
export function provideLanguageFeatures(kernelOf: KernelOf): vscode.Disposable {
  const features = [
    vscode.languages.registerCompletionItemProvider(
      SELECTOR,
      {
        provideCompletionItems: (document, position, token) =>
          complete(kernelOf(document), document, position, token)
      },
      '.'
    ),
    vscode.languages.registerHoverProvider(SELECTOR, {
      provideHover: async (document, position, token) => {
        const word = document.getWordRangeAtPosition(position);
        const text =
          word && (await inspect(kernelOf, document, word.end, token));
        return text
          ? new vscode.Hover(
              new vscode.MarkdownString().appendCodeblock(text, 'text'),
              word
            )
          : undefined;
      }
    }),
    vscode.languages.registerSignatureHelpProvider(
      SELECTOR,
      {
        provideSignatureHelp: async (document, position, token) => {
          const text = await inspect(kernelOf, document, position, token);
          return text ? signatureHelp(text) : undefined;
        }
      },
      '(',
      ','
    )
  ];
  return vscode.Disposable.from(...features);
}

async function complete(
  kernel: NotebookKernel | undefined,
  document: vscode.TextDocument,
  position: vscode.Position,
  token: vscode.CancellationToken
): Promise<vscode.CompletionItem[]> {
  if (hasLanguageServer()) {
    return [];
  }
  const code = document.getText();
  const reply = await kernel?.ask<{
    matches: string[];
    cursor_start: number;
    cursor_end: number;
    metadata: { _jupyter_types_experimental?: { type?: string }[] };
  }>(
    'complete_request',
    { code, cursor_pos: kernelOffset(code, document.offsetAt(position)) },
    token
  );
  if (!reply) {
    return [];
  }
  const place = (offset: number) =>
    document.positionAt([...code].slice(0, offset).join('').length);
  const range = new vscode.Range(
    place(reply.cursor_start),
    place(reply.cursor_end)
  );
  const before = document.getText(range);
  const types = reply.metadata?._jupyter_types_experimental ?? [];
  return reply.matches.map((match, index) => {
    const item = new vscode.CompletionItem(match, kindOf(types[index]?.type));
    item.range = range;
    item.sortText = String(index).padStart(5, '0');
    item.filterText = before && match.includes(before) ? match : before + match;
    return item;
  });
}

async function inspect(
  kernelOf: KernelOf,
  document: vscode.TextDocument,
  position: vscode.Position,
  token: vscode.CancellationToken
): Promise<string | undefined> {
  if (hasLanguageServer()) {
    return undefined;
  }
  const code = document.getText();
  const reply = await kernelOf(document)?.ask<IInspectReply>(
    'inspect_request',
    {
      code,
      cursor_pos: kernelOffset(code, document.offsetAt(position)),
      detail_level: 0
    },
    token
  );
  // Without the colors of a terminal.
  // eslint-disable-next-line no-control-regex
  return reply?.data?.['text/plain']?.replace(/\x1b\[[0-9;]*m/g, '');
}

/** IPython says "Signature: f(x, y)" and "Docstring: …"; undefined: it is no function. */
export function signatureHelp(text: string): vscode.SignatureHelp | undefined {
  const [, label] =
    /^(?:Init signature|Signature|Call signature): *([^]*?)\n(?=[A-Z][\w ]*:)/m.exec(
      text
    ) ?? [];
  if (!label) {
    return undefined;
  }
  const help = new vscode.SignatureHelp();
  const [, documentation] =
    /^Docstring: *\n?([^]*?)(?=\n[A-Z][\w ]*: |$(?![^]))/m.exec(text) ?? [];
  help.signatures = [
    new vscode.SignatureInformation(label.trim(), documentation?.trim())
  ];
  help.activeSignature = help.activeParameter = 0;
  return help;
}

/** Kernels count code points, VS Code UTF-16 units. */
function kernelOffset(code: string, offset: number): number {
  return [...code.slice(0, offset)].length;
}

function kindOf(type: string | undefined): vscode.CompletionItemKind {
  const { Class, Field, Function, Keyword, Module, Text, Variable } =
    vscode.CompletionItemKind;
  const kinds: { [type: string]: vscode.CompletionItemKind } = {
    class: Class,
    function: Function,
    instance: Variable,
    keyword: Keyword,
    magic: Function,
    module: Module,
    property: Field,
    statement: Variable
  };
  return kinds[type ?? ''] ?? Text;
}

function hasLanguageServer(): boolean {
  return LANGUAGE_SERVERS.some(id => vscode.extensions.getExtension(id));
}

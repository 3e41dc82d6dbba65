// Bytes of several hosts as lines, with the host's number before each.

import { IOutputPart } from '../rest/api';

/** Colours and the like, which a page does not show. */
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]/g;

export class OutputLines {
  /** numbered: whether lines have their host's number, and come whole. */
  constructor(private _numbered: boolean) {}

  /** What can be shown now. */
  add({ host, stream, data }: IOutputPart): string {
    const key = `${host} ${stream}`;
    const decoder = this._decoders.get(key) ?? new TextDecoder();
    this._decoders.set(key, decoder);
    const bytes = Uint8Array.from(atob(data), character =>
      character.charCodeAt(0)
    );
    const text = decoder.decode(bytes, { stream: true });
    if (!this._numbered) {
      return visible(text);
    }
    const lines = ((this._begun.get(key) ?? '') + text).split('\n');
    this._begun.set(key, lines.pop() ?? '');
    return lines.map(line => `[${host}] ${visible(line)}\n`).join('');
  }

  /** The last lines, if they have no end. */
  end(): string {
    const left = [...this._begun].filter(([, line]) => line);
    this._begun.clear();
    return left
      .map(([key, line]) => `[${key.split(' ')[0]}] ${visible(line)}\n`)
      .join('');
  }

  private _decoders = new Map<string, TextDecoder>();
  private _begun = new Map<string, string>();
}

/** Without what a carriage return has overwritten, and without colours. */
export function visible(text: string): string {
  return text
    .replace(ESCAPES, '')
    .replace(/\r+\n/g, '\n')
    .replace(/\r+$/, '')
    .replace(/^.*\r/gm, '');
}

// The outputs of one cell, as the kernel's messages change them; and what of them has to be shown
// anew. By the rules of JupyterLab, so that a notebook has the same outputs here and there.

import { StreamText } from './streamText';
import { IMessage } from './wire';

export type MimeBundle = { [mime: string]: unknown };

/** An output, as in a notebook's file. */
export type IOutput =
  | { output_type: 'stream'; name: string }
  | {
      output_type: 'display_data' | 'execute_result';
      data: MimeBundle;
      metadata: object;
      execution_count?: number | null;
      transient?: { display_id?: string };
    }
  | {
      output_type: 'error';
      ename: string;
      evalue: string;
      traceback: string[];
    };

export class Entry {
  /** Shown since the last `takeChanges`, or never. */
  change: 'new' | 'changed' | 'none' = 'new';
  /** Of a stream. */
  readonly stream = new StreamText();

  constructor(public output: IOutput) {}

  get displayId(): string | undefined {
    return 'transient' in this.output
      ? this.output.transient?.display_id
      : undefined;
  }
}

/** What a user has to be shown: `reset`, and then each of `entries`, in order. */
export interface IChanges {
  /** All that was shown is gone. */
  reset: boolean;
  entries: Entry[];
}

/** As in a notebook's file. */
export function nbformatOf({ output, stream }: Entry): object {
  if (output.output_type === 'stream') {
    return { ...output, text: stream.text };
  }
  return { ...output, transient: undefined };
}

export class CellOutputs {
  readonly entries: Entry[] = [];

  /** *outputs*: as in a notebook's file. */
  constructor(outputs: (IOutput & { text?: string | string[] })[] = []) {
    for (const { text, ...output } of outputs) {
      const added = this._add(output as IOutput);
      added.stream.append([text ?? ''].flat().join(''));
    }
  }

  /** Whether the message was about outputs. */
  apply({ content, header }: IMessage): boolean {
    switch (header.msg_type) {
      case 'stream':
        this._print(content.name, content.text);
        return true;
      case 'display_data':
      case 'execute_result':
        this._add({
          output_type: header.msg_type,
          data: content.data ?? {},
          metadata: content.metadata ?? {},
          execution_count: content.execution_count,
          transient: content.transient
        });
        return true;
      case 'error':
        this._add({
          output_type: 'error',
          ename: content.ename,
          evalue: content.evalue,
          traceback: content.traceback ?? []
        });
        return true;
      case 'clear_output':
        if (content.wait) {
          this._clearNext = true;
        } else {
          this.clear();
        }
        return true;
      default:
        return false;
    }
  }

  /** Changes what has a display id; whether something has it. */
  update(displayId: string, data: MimeBundle, metadata: object): boolean {
    const shown = this.entries.filter(one => one.displayId === displayId);
    for (const entry of shown) {
      entry.output = { ...entry.output, data, metadata } as IOutput;
      entry.change = entry.change === 'new' ? 'new' : 'changed';
    }
    return shown.length > 0;
  }

  clear(): void {
    this._clearNext = false;
    this._reset ||= this.entries.some(one => one.change !== 'new');
    this.entries.length = 0;
  }

  get hasChanges(): boolean {
    return this._reset || this.entries.some(one => one.change !== 'none');
  }

  /** Characters of all streams. */
  get textLength(): number {
    return this.entries.reduce((sum, one) => sum + one.stream.length, 0);
  }

  takeChanges(): IChanges {
    const reset = this._reset;
    this._reset = false;
    return {
      reset,
      entries: this.entries.filter(one => one.change !== 'none')
    };
  }

  private _print(name: string, text: string): void {
    const last = this._clearNext ? undefined : this.entries.at(-1);
    if (last?.output.output_type === 'stream' && last.output.name === name) {
      last.stream.append(text);
      last.change = last.change === 'new' ? 'new' : 'changed';
    } else {
      this._add({ output_type: 'stream', name }).stream.append(text);
    }
  }

  private _add(output: IOutput): Entry {
    if (this._clearNext) {
      this.clear();
    }
    const entry = new Entry(output);
    this.entries.push(entry);
    return entry;
  }

  /** The next output replaces all. */
  private _clearNext = false;
  private _reset = false;
}

// Output that a kernel redirects to an output widget (`with out:` of ipywidgets). The page that runs
// a cell hooks its widget to the cell's request. In a page that shows the cell later the output must
// not appear below the cell, and the widget must not be hooked: it would tell the kernel, and so the
// first page, of output that this page has only a part of. Here the widget is only shown it.

import { contentOf, typeOf } from './frames';

/** As much of an output as is needed. */
interface IOutput {
  output_type: string;
  name?: string;
  text?: string | string[];
}

interface ICommContent {
  comm_id: string;
  data?: { method?: string; state?: IWidgetState };
}

interface IWidgetState {
  _model_name?: string;
  msg_id?: string;
  outputs?: IOutput[];
}

/** What is known of a connection's widgets from the kernel: their outputs, by comm. */
export type WidgetOutputs = Map<string, IOutput[]>;

/** Notes the outputs in a message with the states of all widgets; false: it is another message. */
export function noteStates(frame: ArrayBuffer, known: WidgetOutputs): boolean {
  const { data } = contentOf(frame) as {
    data?: {
      method?: string;
      states?: Record<string, { state?: IWidgetState }>;
    };
  };
  if (data?.method !== 'update_states') {
    return false;
  }
  for (const [comm, { state }] of Object.entries(data.states ?? {})) {
    if (state?.outputs) {
      known.set(comm, state.outputs);
    }
  }
  return true;
}

/** The redirected output of one request. */
export class RedirectedOutput {
  /** All of it has come. */
  ended = false;

  constructor(
    readonly request: string,
    private _known: WidgetOutputs
  ) {}

  /** Takes a message of the request; true: it must not be handed on. */
  take(frame: ArrayBuffer): boolean {
    const type = typeOf(frame);
    if (type === 'comm_open') {
      const { comm_id, data } = contentOf(frame) as ICommContent;
      if (data?.state?._model_name === 'OutputModel') {
        this._known.set(comm_id, data.state.outputs ?? []);
      }
      return false;
    }
    if (type === 'comm_msg') {
      return this._redirect(contentOf(frame) as ICommContent);
    }
    const target = this._targets[this._targets.length - 1];
    switch (target === undefined ? '' : type) {
      case 'stream':
      case 'display_data':
      case 'execute_result':
      case 'error':
        this._add(target, {
          ...(contentOf(frame) as object),
          output_type: type
        });
        return true;
      case 'clear_output':
        if ((contentOf(frame) as { wait?: boolean }).wait) {
          this._clearNext.add(target);
        } else {
          this._clear(target);
        }
        return true;
      default:
        return false;
    }
  }

  /** The widgets whose output has changed, with all of it, and whether to tell the kernel. */
  takeChanged(): { comm: string; outputs: IOutput[]; tell: boolean }[] {
    const changed = [...this._changed];
    this._changed.clear();
    return changed.map(comm => ({
      comm,
      outputs: this._allOf(comm, this._known.get(comm) ?? []),
      tell: this._behind.delete(comm) && this.ended
    }));
  }

  /**
   * Shows widgets their output again, if a message has told them less; null: all of them. The kernel
   * knows less if the page that ran the cell has gone.
   */
  showAgain(frame: ArrayBuffer | null): boolean {
    if (!frame) {
      this._outputs.forEach((_, comm) => this._changed.add(comm));
      return this._changed.size > 0;
    }
    const { comm_id, data } = contentOf(frame) as ICommContent;
    const told = joined(data?.state?.outputs ?? []);
    const own = this._outputs.get(comm_id);
    if (!own?.length || told.length === 0) {
      return false;
    }
    const all = this._allOf(comm_id, told);
    const isLess =
      withoutCaptured(told, own).length < told.length &&
      JSON.stringify(all) !== JSON.stringify(told.map(normalized));
    if (isLess) {
      this._known.set(comm_id, told);
      this._behind.add(comm_id);
      this._changed.add(comm_id);
    }
    return isLess;
  }

  private _allOf(comm: string, told: IOutput[]): IOutput[] {
    const own = this._outputs.get(comm)!;
    const before = this._cleared.has(comm)
      ? []
      : withoutCaptured(joined(told), own);
    return [...before, ...own].map(normalized);
  }

  private _redirect({ comm_id, data }: ICommContent): boolean {
    const id = data?.method === 'update' ? data.state?.msg_id : undefined;
    if (id === undefined) {
      return false;
    }
    this._targets = this._targets.filter(target => target !== comm_id);
    if (id !== this.request) {
      return false; // no longer, which also unhooks it
    }
    this._targets.push(comm_id);
    return true;
  }

  private _add(comm: string, output: IOutput): void {
    if (this._clearNext.delete(comm)) {
      this._clear(comm);
    }
    const outputs = this._outputs.get(comm) ?? [];
    const last = outputs[outputs.length - 1];
    if (output.output_type === 'stream' && last?.name === output.name) {
      last.text = textOf(last) + textOf(output);
    } else {
      outputs.push(output);
    }
    this._outputs.set(comm, outputs);
    this._changed.add(comm);
  }

  private _clear(comm: string): void {
    this._outputs.set(comm, []);
    this._cleared.add(comm);
    this._changed.add(comm);
  }

  private _targets: string[] = [];
  private _outputs: WidgetOutputs = new Map();
  private _cleared = new Set<string>();
  private _clearNext = new Set<string>();
  private _changed = new Set<string>();
  private _behind = new Set<string>();
}

/** A widget's output without its end that is a beginning of *captured*. */
function withoutCaptured(all: IOutput[], captured: IOutput[]): IOutput[] {
  const start = all.findIndex((_, index) =>
    all.slice(index).every((output, at, { length }) => {
      const other = captured[at];
      return output.output_type === 'stream' && other?.name === output.name
        ? at === length - 1
          ? begins(textOf(other), textOf(output))
          : textOf(other) === textOf(output)
        : JSON.stringify(output) === JSON.stringify(other);
    })
  );
  return start < 0 ? all : all.slice(0, start);
}

/** Neighbors of one stream are one output, as they are in what was captured. */
function joined(outputs: IOutput[]): IOutput[] {
  const all: IOutput[] = [];
  for (const output of outputs) {
    const last = all[all.length - 1];
    if (
      output.output_type === 'stream' &&
      last?.output_type === 'stream' &&
      last.name === output.name
    ) {
      all[all.length - 1] = { ...last, text: textOf(last) + textOf(output) };
    } else {
      all.push(output);
    }
  }
  return all;
}

/**
 * Whether what JupyterLab shows of a beginning of *text* is *shown*. It leaves out what a carriage
 * return has overwritten. The last line of a beginning may have been another one then.
 */
function begins(text: string, shown: string): boolean {
  if (!text.includes('\r')) {
    return text.startsWith(shown);
  }
  const lines = text.replace(/\r+\n/g, '\n').split('\n');
  const complete = shown.split('\n');
  const last = complete.pop()!;
  const current = lines[complete.length] ?? '';
  return (
    complete.every(
      (line, index) => line === withoutOverwritten(lines[index])
    ) &&
    (current.includes('\r') || current.startsWith(last))
  );
}

function withoutOverwritten(line: string): string {
  return line
    .split('\r')
    .reduce((before, now) => now + before.slice(now.length), '');
}

function normalized(output: IOutput): IOutput {
  return output.output_type === 'stream'
    ? { output_type: 'stream', name: output.name, text: textOf(output) }
    : output;
}

function textOf({ text }: IOutput): string {
  return Array.isArray(text) ? text.join('') : (text ?? '');
}

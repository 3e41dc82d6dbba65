// Output that a kernel redirects to an output widget (`with out:` of ipywidgets): it is the client that puts it
// there, and tells the kernel what the widget has.

import { CellOutputs, nbformatOf } from './outputs';
import { ICommMessage } from '../../widgets/src/protocol';
import { IMessage } from './wire';

/** Milliseconds between two changes of what is shown. */
const PAUSE = 50;

export class OutputWidgets {
  /** *change* is called with all outputs of a widget. */
  constructor(private _change: (comm: string, outputs: object[]) => void) {}

  /** Takes a message of a comm: from where on output belongs to a widget, and what it has. */
  note({ content, type }: ICommMessage): void {
    const { comm_id, data = {} } = content;
    const { method, state = {} } = data;
    if (type === 'comm_close') {
      this._redirections = this._redirections.filter(
        ({ comm }) => comm !== comm_id
      );
      this._outputs.delete(comm_id);
    } else if (type === 'comm_open' || method === 'update') {
      if (Array.isArray(state.outputs)) {
        this._outputs.set(comm_id, new CellOutputs(state.outputs));
      }
      if (typeof state.msg_id === 'string') {
        this._redirections = this._redirections.filter(
          ({ comm }) => comm !== comm_id
        );
        if (state.msg_id) {
          this._redirections.push({ comm: comm_id, request: state.msg_id });
        }
      }
    }
  }

  /** Whether a message is of a widget, and not of a cell. */
  take(message: IMessage): boolean {
    const request = message.parent_header.msg_id;
    const target = this._redirections.findLast(one => one.request === request);
    if (!target) {
      return false;
    }
    const outputs = this._outputs.get(target.comm) ?? new CellOutputs();
    this._outputs.set(target.comm, outputs);
    if (!outputs.apply(message)) {
      return false;
    }
    this._changed.add(target.comm);
    this._timer ??= setTimeout(() => this._flush(), PAUSE);
    return true;
  }

  clear(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._changed.clear();
    this._outputs.clear();
    this._redirections = [];
  }

  private _flush(): void {
    this._timer = undefined;
    for (const comm of this._changed) {
      const entries = this._outputs.get(comm)?.entries;
      if (entries) {
        this._change(comm, entries.map(nbformatOf));
      }
    }
    this._changed.clear();
  }

  private _changed = new Set<string>();
  private _outputs = new Map<string, CellOutputs>();
  /** The latest one of a request counts. */
  private _redirections: { comm: string; request: string }[] = [];
  private _timer?: ReturnType<typeof setTimeout>;
}

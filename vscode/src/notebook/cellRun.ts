// One request of a cell, and what VS Code shows of it: its output, its count, and for how long it runs.

import * as vscode from 'vscode';

import { itemsOf, outputOf, streamItem } from './outputItems';
import { CellOutputs, Entry, MimeBundle } from './outputs';
import { IMessage } from './wire';

/**
 * Milliseconds between two changes of what is shown, and what is added for each MB that is shown: with
 * each change VS Code copies a stream.
 */
const PAUSE = 50;
const PAUSE_PER_MB = 100;

export interface IRunOptions {
  /** The message's id. */
  id: string;
  cell: vscode.NotebookCell;
  /** Throws if the cell can't be executed (any more). */
  createExecution: () => vscode.NotebookCellExecution;
  /** What is sent, if it is this window that does it. */
  request?: IMessage;
  /** It was sent before this window was opened; when it began, if that is known. */
  takenUp?: { started?: number };
  /** It has begun (milliseconds since 1970). */
  onStart: (time: number) => void;
  /** All that it has to show is shown, but for what comes late. Not called if it is abandoned. */
  onEnd: () => void;
}

export class CellRun {
  /** Throws if the cell can't be executed. */
  constructor(private _options: IRunOptions) {
    this._execution = _options.createExecution();
  }

  get id(): string {
    return this._options.id;
  }

  get cell(): vscode.NotebookCell {
    return this._options.cell;
  }

  get request(): IMessage | undefined {
    return this._options.request;
  }

  get isOver(): boolean {
    return this._isOver;
  }

  /** Takes a message of the kernel that answers this request. */
  receive(message: IMessage): void {
    const { channel, content, header } = message;
    if (!this._started) {
      this._start(message);
    }
    if (channel === 'iopub') {
      if (header.msg_type === 'execute_input') {
        this._count = content.execution_count ?? null;
      } else if (header.msg_type === 'status') {
        this._isIdle ||= content.execution_state === 'idle';
      } else if (this._outputs.apply(message)) {
        this._show();
      }
    } else if (channel === 'shell') {
      this._status = content.status;
      this._count = content.execution_count ?? this._count;
    }
    // What is replayed can follow what comes live.
    const date = Date.parse(header.date);
    this._firstDate = Math.min(this._firstDate, date);
    this._lastDate = Math.max(this._lastDate, date);
    if (this._status && this._isIdle && !this._isOver) {
      const aborted = this._status === 'aborted';
      this._finish(aborted ? undefined : this._status === 'ok');
    }
  }

  /** Changes an output with a display id; whether it has one. */
  update(displayId: string, data: MimeBundle, metadata: object): boolean {
    const found = this._outputs.update(displayId, data, metadata);
    if (found) {
      this._show();
    }
    return found;
  }

  /** Its kernel can't answer any more. */
  fail(error?: Error): void {
    if (!this._isOver) {
      this._begin(Date.now());
      if (error) {
        this._flush();
        const item = vscode.NotebookCellOutputItem.error(error);
        const output = new vscode.NotebookCellOutput([item]);
        void this._execution.appendOutput(output);
      }
      this._finish(false);
    }
  }

  /** Its cell is not there any more. */
  abandon(): void {
    clearTimeout(this._timer);
    if (!this._isOver) {
      this._isOver = true;
      this._execution.end(undefined);
    }
  }

  private _start({ header }: IMessage): void {
    const { takenUp } = this._options;
    this._begin(
      takenUp ? (takenUp.started ?? Date.parse(header.date)) : Date.now()
    );
  }

  private _begin(time: number): void {
    if (!this._started) {
      this._started = time;
      this._execution.start(time);
      this._isShown = !!this._options.takenUp; // what is shown now stays until there is more
      if (!this._isShown) {
        void this._execution.clearOutput();
      }
      this._options.onStart(time);
    }
  }

  /** When it ended, by the clock by which it began. */
  private get _ended(): number {
    const lasted = this._lastDate - this._firstDate;
    return this._options.takenUp && lasted >= 0
      ? Math.min(this._started! + lasted, Date.now())
      : Date.now();
  }

  private _finish(success: boolean | undefined): void {
    this._flush();
    this._isOver = true;
    this._success = success;
    this._endTime = this._ended;
    this._end();
    this._options.onEnd();
  }

  private _end(): void {
    if (this._count !== null) {
      this._execution.executionOrder = this._count;
    }
    this._execution.end(this._success, this._endTime);
  }

  private _show(): void {
    if (this._timer === undefined) {
      const pause = this._isShown || this._isOver ? PAUSE : 0;
      const megabytes = this._outputs.textLength / 1e6;
      this._timer = setTimeout(
        () => this._flush(),
        Math.max(pause, PAUSE_PER_MB * megabytes)
      );
    }
  }

  private _flush(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (!this._isOver) {
      this._write();
      return;
    }
    // Output of a thread that goes on, or a display that another cell updates.
    try {
      this._execution = this._options.createExecution();
    } catch {
      return; // the cell is not there any more, or runs again
    }
    this._execution.start(this._started);
    this._write();
    this._end();
  }

  private _write(): void {
    const execution = this._execution;
    const { entries, reset } = this._outputs.takeChanges();
    const created: vscode.NotebookCellOutput[] = [];
    for (const entry of entries) {
      const output = this._shown.get(entry);
      const { name } = entry.output as { name: string };
      const added = entry.stream.take();
      if (!output) {
        const output = outputOf(entry);
        this._shown.set(entry, output);
        created.push(output);
      } else if (entry.output.output_type === 'stream' && added !== null) {
        void execution.appendOutputItems(streamItem(name, added), output);
      } else {
        void execution.replaceOutputItems(itemsOf(entry), output);
      }
      entry.change = 'none';
    }
    if (reset || (this._options.takenUp && !this._isReplaced)) {
      void execution.replaceOutput(created);
    } else if (created.length > 0) {
      void execution.appendOutput(created);
    }
    this._isReplaced = true;
    this._isShown ||= entries.length > 0;
  }

  private _count: number | null = null;
  private _endTime = 0;
  private _execution: vscode.NotebookCellExecution;
  private _firstDate = Infinity;
  private _isIdle = false;
  private _isOver = false;
  /** What was shown before it was taken up has been replaced. */
  private _isReplaced = false;
  private _isShown = false;
  private _lastDate = -Infinity;
  private _outputs = new CellOutputs();
  private _shown = new WeakMap<Entry, vscode.NotebookCellOutput>();
  private _started?: number;
  private _status = '';
  private _success?: boolean;
  private _timer?: ReturnType<typeof setTimeout>;
}

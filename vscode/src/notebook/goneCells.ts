// Output of requests whose cells are not in their notebook any more.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { CellOutputs } from './outputs';
import { IMessage } from './wire';

/** Milliseconds after which output is shown. */
const PAUSE = 200;

export class GoneCells implements vscode.Disposable {
  dispose(): void {
    this._channel?.dispose();
  }

  /** Shows what a request prints from now on; *code* is what it runs, if that is known. */
  add(notebook: vscode.Uri, code: string): GoneRun {
    const name = notebook.path.split('/').at(-1)!;
    this._channel ??= vscode.window.createOutputChannel(
      trans.__('Output of cells that are gone')
    );
    const channel = this._channel;
    const [first] = code.trim().split('\n');
    const title = first ? `${name}: ${first}` : name;
    const show = trans.__('Show Output');
    void vscode.window
      .showInformationMessage(
        trans.__('A cell that is not in %1 any more was run: %2', name, first),
        show
      )
      .then(answer => answer === show && channel.show());
    return new GoneRun(text => channel.append(text), title);
  }

  private _channel?: vscode.OutputChannel;
}

export class GoneRun {
  constructor(
    private _append: (text: string) => void,
    private _title: string
  ) {}

  receive(message: IMessage): void {
    this._outputs.apply(message);
    this._timer ??= setTimeout(() => this._show(), PAUSE);
  }

  private _show(): void {
    this._timer = undefined;
    const { entries } = this._outputs.takeChanges();
    for (const entry of entries) {
      const { output, stream } = entry;
      const added = stream.take();
      let text = '';
      if (output.output_type === 'stream') {
        text = entry.change === 'new' || added === null ? stream.text : added;
      } else if (output.output_type === 'error') {
        text = `${output.traceback.join('\n')}\n`;
      } else {
        text = `${[output.data['text/plain']].flat().join('')}\n`;
      }
      entry.change = 'none';
      if (text && this._title) {
        this._append(`—— ${this._title}\n`);
        this._title = '';
      }
      this._append(text);
    }
  }

  private _outputs = new CellOutputs();
  private _timer?: ReturnType<typeof setTimeout>;
}

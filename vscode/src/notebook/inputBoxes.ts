// Asks the user for what a cell reads: `input()` and `getpass`.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { createMessage, IMessage } from './wire';

export class InputBoxes implements vscode.Disposable {
  /** *client*: its session. *send* sends the kernel a message, if it is connected. */
  constructor(
    private _title: string,
    private _client: string,
    private _send: (message: IMessage) => void
  ) {}

  /** Nothing is asked any more. */
  dispose(): void {
    this._boxes.forEach(box => box.dispose());
    this._boxes.clear();
    this._answers.clear();
    this._requests.clear();
  }

  /** It is connected again. */
  sendAgain(): void {
    this._answers.forEach(answer => this._send(answer));
  }

  ask(request: IMessage): void {
    const id = request.header.msg_id;
    this._requests.set(id, request.parent_header.msg_id ?? '');
    if (this._boxes.has(id)) {
      return;
    }
    const box = vscode.window.createInputBox();
    box.title = this._title;
    box.prompt = request.content.prompt;
    box.password = request.content.password;
    box.ignoreFocusOut = true;
    box.onDidAccept(() => {
      this._answer(request, box.value);
      this._hide(id);
    });
    box.onDidHide(() => {
      if (this._boxes.has(id)) {
        void this._askAgain(id, request.content.prompt);
      }
    });
    this._boxes.set(id, box);
    box.show();
  }

  /** It is answered, by any client. */
  close(id: string): void {
    this._requests.delete(id);
    this._answers.delete(id);
    this._hide(id);
  }

  /** A cell has ended. */
  closeOf(request: string): void {
    for (const [id, asking] of this._requests) {
      if (asking === request) {
        this.close(id);
      }
    }
  }

  private _answer({ header }: IMessage, value: string): void {
    const content = { value, status: 'ok' };
    const reply = createMessage('input_reply', this._client, content, {
      channel: 'stdin',
      parent_header: header
    });
    // Until the server says that it has one: it takes each once.
    this._answers.set(header.msg_id, reply);
    this._send(reply);
  }

  private _hide(id: string): void {
    const box = this._boxes.get(id);
    this._boxes.delete(id);
    box?.dispose();
  }

  /** The cell waits until it has an answer. */
  private async _askAgain(id: string, prompt: string): Promise<void> {
    const enter = trans.__('Enter Input');
    const answer = await vscode.window.showInformationMessage(
      trans.__('A cell of %1 waits for input: %2', this._title, prompt),
      enter
    );
    if (answer === enter) {
      this._boxes.get(id)?.show();
    }
  }

  private _answers = new Map<string, IMessage>();
  /** Input_requests without an answer: their ids, and those of the requests that ask. */
  private _requests = new Map<string, string>();
  private _boxes = new Map<string, vscode.InputBox>();
}

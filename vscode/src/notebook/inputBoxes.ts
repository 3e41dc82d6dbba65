// Asks the user for what a cell reads: `input()` and `getpass`.

import * as vscode from 'vscode';

import { trans } from '../../../labextension/src/language/translation';
import { IMessage } from './wire';

export class InputBoxes implements vscode.Disposable {
  /** *answer* sends what the user has entered. */
  constructor(
    private _title: string,
    private _answer: (request: IMessage, value: string) => void
  ) {}

  dispose(): void {
    this._boxes.forEach(box => box.dispose());
    this._boxes.clear();
  }

  ask(request: IMessage): void {
    const id = request.header.msg_id;
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
      this.close(id);
    });
    box.onDidHide(() => {
      if (this._boxes.has(id)) {
        void this._askAgain(id, request.content.prompt);
      }
    });
    this._boxes.set(id, box);
    box.show();
  }

  /** It is answered, or its cell has ended. */
  close(id: string): void {
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

  private _boxes = new Map<string, vscode.InputBox>();
}

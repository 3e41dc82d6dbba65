// The widgets of one notebook's kernel, between the kernel and the pages that show them.

import { NotebookDocument, NotebookEditor } from 'vscode';

import { ICommMessage, WIDGET_TARGET } from '../../widgets/src/protocol';
import { OutputWidgets } from './outputWidgets';
import { WidgetModels } from './widgetModels';
import { WidgetPages } from './widgetPages';
import { createMessage, IMessage } from './wire';

/** Milliseconds for which messages to pages are collected, if one was sent shortly before. */
const PAUSE = 20;
const CONTROL = 'jupyter.widget.control';

export interface IKernelWidgetsOptions {
  notebook: NotebookDocument;
  pages: WidgetPages;
  /** The client's session. */
  client: string;
  /** Sends the kernel a message, once, when it is connected. */
  send: (message: IMessage) => void;
  /** Resolves to the content of the reply. */
  request: <T>(message: IMessage) => Promise<T>;
}

export class KernelWidgets {
  constructor(private _options: IKernelWidgetsOptions) {}

  /** Takes a message of the kernel. False: it is about cells. */
  receive(message: IMessage): boolean {
    const { channel, header, parent_header } = message;
    const type = header.msg_type;
    const parent = parent_header.msg_id ?? '';
    if (channel !== 'iopub') {
      return false;
    }
    if (type === 'status') {
      if (this._sent.has(parent)) {
        this._collect(commMessage(message));
        if (message.content.execution_state === 'idle') {
          this._sent.delete(parent);
        }
      }
      return false;
    }
    if (!type.startsWith('comm_')) {
      return this._outputs.take(message);
    }
    const comm = commMessage(message);
    if (comm.content.data?.method === 'update_states') {
      this._models.messagesOf(comm).forEach(one => this._apply(one));
      this._endLoading();
    } else if (comm.content.comm_id === this._control) {
      this._endLoading(); // it knows no such comm
    } else if (
      comm.type !== 'comm_open' ||
      comm.content.target_name === WIDGET_TARGET
    ) {
      this._apply(comm);
    }
    return true;
  }

  /** A page has a message for the kernel. */
  send(page: NotebookEditor, message: ICommMessage): void {
    const { buffers, content, id, metadata, type } = message;
    this._sent.add(id);
    this._options.send({
      ...createMessage(type, this._options.client, content, { id, metadata }),
      buffers: buffers.map(one => Buffer.from(one, 'base64'))
    });
    this._models.apply(message);
    this._post(
      [message],
      this._pages.filter(one => one !== page)
    );
  }

  /** A page is there, and knows no widget. */
  show(page: NotebookEditor): void {
    this._flush(this._pages.filter(one => one !== page));
    this._post(this._models.messages(), [page]);
    if (this._isComplete) {
      this._options.pages.post([page], { kind: 'complete' });
    }
  }

  /** Asks the kernel for the widgets that it has, if this window does not know them. */
  async load(): Promise<void> {
    if (this._isLoading || this._isComplete) {
      return;
    }
    this._isLoading = true;
    const { client, request } = this._options;
    const { comms } = await request<{ comms: object }>(
      createMessage('comm_info_request', client, { target_name: WIDGET_TARGET })
    );
    const isMissing = Object.keys(comms ?? {}).some(
      id => !this._models.has(id)
    );
    if (isMissing) {
      this._control = crypto.randomUUID();
      const data = { method: 'request_states' };
      this._sendControl('comm_open', { target_name: CONTROL, data: {} });
      this._sendControl('comm_msg', { data });
    } else {
      this._endLoading();
    }
  }

  /** The kernel has restarted, or is another one. */
  reset(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._waiting = [];
    this._models.clear();
    this._outputs.clear();
    this._sent.clear();
    this._control = '';
    this._isComplete = this._isLoading = false;
    this._options.pages.post(this._pages, { kind: 'reset' });
  }

  private get _pages(): NotebookEditor[] {
    return this._options.pages.of(this._options.notebook);
  }

  private _apply(message: ICommMessage): void {
    const pages = this._pages;
    this._models.apply(message, pages.length > 0);
    this._outputs.note(message);
    this._collect(message);
  }

  private _sendControl(type: string, fields: object): void {
    const { client, send } = this._options;
    const content = { comm_id: this._control, ...fields };
    const metadata = { version: '1.0.0' };
    send(createMessage(type, client, content, { metadata }));
  }

  private _endLoading(): void {
    if (this._control) {
      this._sendControl('comm_close', { data: {} });
      this._control = '';
    }
    this._isComplete = true;
    this._flush();
    this._options.pages.post(this._pages, { kind: 'complete' });
  }

  private _setOutputs(comm_id: string, outputs: object[]): void {
    const data = { method: 'update', state: { outputs }, buffer_paths: [] };
    const message = createMessage('comm_msg', this._options.client, {
      comm_id,
      data
    });
    this._options.send(message);
    const comm = commMessage(message);
    this._models.apply(comm);
    this._collect(comm);
  }

  /** Not one by one: a progress bar has many. */
  private _collect(message: ICommMessage): void {
    this._waiting.push(message);
    const pause = this._flushed + PAUSE - Date.now();
    this._timer ??= setTimeout(() => this._flush(), Math.max(0, pause));
  }

  private _flush(pages = this._pages): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    this._flushed = Date.now();
    this._post(this._waiting.splice(0), pages);
  }

  private _post(messages: ICommMessage[], pages: NotebookEditor[]): void {
    if (messages.length > 0) {
      this._options.pages.post(pages, { kind: 'messages', messages });
    }
  }

  /** The comm over which the kernel says what it has, while it is asked. */
  private _control = '';
  private _flushed = 0;
  private _isComplete = false;
  private _isLoading = false;
  private _models = new WidgetModels();
  private _outputs = new OutputWidgets((...change) =>
    this._setOutputs(...change)
  );
  /** Messages of pages that the kernel has not done with. */
  private _sent = new Set<string>();
  private _timer?: ReturnType<typeof setTimeout>;
  private _waiting: ICommMessage[] = [];
}

function commMessage(message: IMessage): ICommMessage {
  const { buffers = [], content, header, metadata, parent_header } = message;
  return {
    type: header.msg_type as ICommMessage['type'],
    id: header.msg_id,
    parent: parent_header.msg_id,
    content,
    metadata,
    buffers: buffers.map(one => Buffer.from(one).toString('base64'))
  };
}

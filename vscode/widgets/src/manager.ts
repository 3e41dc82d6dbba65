// The widgets of a notebook in the page that shows it: @jupyter-widgets' own manager, whose comms end at
// the extension.

import * as base from '@jupyter-widgets/base';
import {
  HTMLManager,
  ICallbacks
} from '@jupyter-widgets/html-manager/lib/htmlmanager';
import anywidget from 'anywidget';

import { ICommMessage, WIDGET_TARGET } from './protocol';

/** The JavaScript modules whose widgets are shown. */
const SUPPORTED = [
  '@jupyter-widgets/base',
  '@jupyter-widgets/controls',
  '@jupyter-widgets/output',
  'anywidget'
];

type Send = (message: ICommMessage) => void;
type Listener = (message: object) => void;

export class WidgetManager extends HTMLManager {
  /** *unsupported*: what is shown instead of a widget that needs this JavaScript module. */
  constructor(
    private _send: Send,
    private _unsupported: (module: string) => string
  ) {
    const classes = anywidget(base); // its views know the models of the same call only
    super({ loader: async () => classes });
  }

  protected loadModelClass(name: string, module: string, version: string) {
    return SUPPORTED.includes(module)
      ? super.loadModelClass(name, module, version)
      : Promise.resolve(base.DOMWidgetModel);
  }

  protected loadViewClass(name: string, module: string, version: string) {
    if (SUPPORTED.includes(module)) {
      return super.loadViewClass(name, module, version);
    }
    const text = this._unsupported(module);
    return Promise.resolve(
      class extends base.DOMWidgetView {
        render(): void {
          this.el.textContent = text;
        }
      }
    );
  }

  /** Takes a message of the extension. */
  receive(message: ICommMessage): void {
    const { content, parent, type } = message;
    if (type === 'status') {
      this._callbacks.get(parent!)?.iopub?.status?.(shapeOf(message));
      if (content.execution_state === 'idle') {
        this._callbacks.delete(parent!);
      }
    } else if (type === 'comm_open') {
      if (!this._comms.has(content.comm_id)) {
        const comm = this._createComm(content.comm_id, content.target_name);
        // Without it, its views say why.
        this.handle_comm_open(comm, shapeOf(message)).catch(() => {});
      }
    } else {
      this._comms.get(content.comm_id)?.receive(type, shapeOf(message));
      if (type === 'comm_close') {
        this._comms.delete(content.comm_id);
      }
    }
  }

  /** The kernel does not know these widgets any more. What is shown stays, and says so. */
  reset(): void {
    this.disconnect();
    this._models = Object.create(null);
    this._comms.clear();
    this._callbacks.clear();
  }

  /** For widgets that this page makes. */
  async _create_comm(
    target: string,
    id: string,
    data?: object,
    metadata?: object,
    buffers?: (ArrayBuffer | ArrayBufferView)[]
  ): Promise<Comm> {
    const comm = this._createComm(id, target);
    if (data) {
      comm.open(data, undefined, metadata, buffers);
    }
    return comm;
  }

  private _createComm(id: string, target = WIDGET_TARGET): Comm {
    const comm = new Comm(id, target, this._send, this._callbacks);
    this._comms.set(id, comm);
    return comm;
  }

  private _callbacks = new Map<string, ICallbacks>();
  private _comms = new Map<string, Comm>();
}

/** A comm as ipywidgets knows it (`IClassicComm`). */
class Comm {
  constructor(
    readonly comm_id: string,
    readonly target_name: string,
    private _send: Send,
    private _callbacks: Map<string, ICallbacks>
  ) {}

  open = this._sender('comm_open');
  send = this._sender('comm_msg');
  close = this._sender('comm_close');

  on_msg(listener: Listener): void {
    this._listeners.comm_msg = listener;
    this._waiting.splice(0).forEach(message => listener(message));
  }

  on_close(listener: Listener): void {
    this._listeners.comm_close = listener;
  }

  receive(type: 'comm_msg' | 'comm_close', message: object): void {
    const listener = this._listeners[type];
    if (listener) {
      listener(message);
    } else if (type === 'comm_msg') {
      this._waiting.push(message); // its model is not made yet
    }
  }

  private _sender(type: ICommMessage['type']) {
    return (
      data: object = {},
      callbacks?: ICallbacks,
      metadata: object = {},
      buffers: (ArrayBuffer | ArrayBufferView)[] = []
    ): string => {
      const id = crypto.randomUUID();
      if (callbacks) {
        this._callbacks.set(id, callbacks);
      }
      const { comm_id, target_name } = this;
      const target = type === 'comm_open' ? { target_name } : {};
      this._send({
        type,
        id,
        content: { comm_id, data, ...target },
        metadata: metadata as Record<string, unknown>,
        buffers: buffers.map(toBase64)
      });
      return id;
    };
  }

  private _listeners: { comm_msg?: Listener; comm_close?: Listener } = {};
  private _waiting: object[] = [];
}

/** A message as widgets expect it. */
function shapeOf({
  buffers,
  content,
  id,
  metadata,
  parent,
  type
}: ICommMessage) {
  return {
    header: { msg_id: id, msg_type: type },
    parent_header: { msg_id: parent },
    metadata,
    content,
    buffers: buffers.map(one => new DataView(fromBase64(one)))
  };
}

function fromBase64(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), one => one.charCodeAt(0)).buffer;
}

function toBase64(buffer: ArrayBuffer | ArrayBufferView): string {
  const bytes = ArrayBuffer.isView(buffer)
    ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    : new Uint8Array(buffer);
  let text = '';
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}

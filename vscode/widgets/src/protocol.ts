// What the extension and the page that shows a notebook's widgets say to each other. VS Code hands on JSON only.

/** A message of a comm, or a `status` that answers one of the page's. */
export interface ICommMessage {
  type: 'comm_open' | 'comm_msg' | 'comm_close' | 'status';
  id: string;
  /** The message that it answers. */
  parent?: string;
  /** As in Jupyter. */
  // What it has depends on the type: the reader knows it.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  content: any;
  metadata: Record<string, unknown>;
  /** Base64. */
  buffers: string[];
}

/** Sentences, in the language of the extension. */
export interface ITexts {
  loading: string;
  missing: string;
  /** %1: a JavaScript module. */
  unsupported: string;
}

export type ToPage =
  | { kind: 'texts'; texts: ITexts }
  | { kind: 'messages'; messages: ICommMessage[] }
  /** All that there is now was sent; *saved*: there is no kernel, but the file has this state. */
  | { kind: 'complete'; saved?: object }
  /** The kernel is another one: it does not know the widgets that are shown. */
  | { kind: 'reset' };

export type FromPage =
  { kind: 'ready' } | { kind: 'send'; message: ICommMessage };

/** As package.json names it. */
export const RENDERER = 'jupyter-tpu-widgets';
export const WIDGET_TARGET = 'jupyter.widget';

// What is read of a kernel message on the wire (v1.kernel.websocket.jupyter.org) before JupyterLab
// reads it: offsets (64 bits, little-endian) of channel, header, parent header, metadata, content.

import { KernelMessage, ServerConnection } from '@jupyterlab/services';
import { JSONObject } from '@lumino/coreutils';

/** The protocol of JupyterLab and Jupyter Server. */
export const PROTOCOL = 'v1.kernel.websocket.jupyter.org';

const decoder = new TextDecoder();

type Header = Partial<KernelMessage.IHeader>;

/** The number that the server gave a message, in its metadata. */
export interface ISequence {
  /** Counts the kernel's messages in both directions, from 1. */
  number: number;
  /** Sent again, because the page sent its request again. */
  replayed: boolean;
  /** Of an execute_input: the notebook's cell; "" if it is not known. */
  cell: string;
}

enum Part {
  channel = 0,
  header = 1,
  parent = 2,
  metadata = 3,
  content = 4
}

/** A message's number; null if the server gave it none. */
export function sequenceOf(frame: ArrayBuffer): ISequence | null {
  const text = textOf(frame, Part.metadata);
  if (!text.includes('"jupyter_tpu"')) {
    return null;
  }
  const sequence = (JSON.parse(text) as { jupyter_tpu?: Partial<ISequence> })
    .jupyter_tpu;
  return typeof sequence?.number === 'number'
    ? {
        number: sequence.number,
        replayed: !!sequence.replayed,
        cell: sequence.cell ?? ''
      }
    : null;
}

/** The id of the request that a message answers; "" if it answers none. */
export function parentOf(frame: ArrayBuffer): string {
  return read<Header>(frame, Part.parent).msg_id ?? '';
}

/** The client whose request a message answers; "" if it answers none. */
export function clientOf(frame: ArrayBuffer): string {
  return read<Header>(frame, Part.parent).session ?? '';
}

/** The message's own id. */
export function idOf(frame: ArrayBuffer): string {
  return read<Header>(frame, Part.header).msg_id ?? '';
}

export function typeOf(frame: ArrayBuffer): string {
  return read<Header>(frame, Part.header).msg_type ?? '';
}

export function channelOf(frame: ArrayBuffer): string {
  return textOf(frame, Part.channel);
}

export function contentOf(frame: ArrayBuffer): unknown {
  return read(frame, Part.content);
}

/**
 * An update of a widget's state, as if it came from the kernel after *frame*, or, with a *session*, as
 * that client sends it to the kernel.
 */
export function widgetUpdate(
  frame: ArrayBuffer,
  comm_id: string,
  state: { [name: string]: unknown },
  session?: string
): ArrayBuffer {
  const header = read<Header>(frame, Part.header);
  const data = { method: 'update', state, buffer_paths: [] } as unknown;
  const message = KernelMessage.createMessage<
    KernelMessage.ICommMsgMsg<'iopub'>
  >({
    msgType: 'comm_msg',
    channel: (session ? 'shell' : 'iopub') as 'iopub',
    session: session ?? header.session ?? '',
    username: header.username,
    content: { comm_id, data: data as JSONObject }
  });
  const { serializer } = ServerConnection.makeSettings();
  return serializer.serialize(message, PROTOCOL) as ArrayBuffer;
}

function read<T>(frame: ArrayBuffer, part: Part): T {
  return JSON.parse(textOf(frame, part)) as T;
}

function textOf(frame: ArrayBuffer, part: Part): string {
  const view = new DataView(frame);
  const offset = (index: number) =>
    Number(view.getBigUint64(8 * (index + 1), true));
  return decoder.decode(frame.slice(offset(part), offset(part + 1)));
}

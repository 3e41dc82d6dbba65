// What is read of a kernel message on the wire (v1.kernel.websocket.jupyter.org) before JupyterLab
// reads it: offsets (64 bits, little-endian) of channel, header, parent header, metadata, content.

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The number that the server gave a message, in its metadata. */
export interface ISequence {
  /** Counts the kernel's messages in both directions, from 1. */
  number: number;
  /** Sent again, because the page sent its request again. */
  replayed: boolean;
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
    ? { number: sequence.number, replayed: !!sequence.replayed }
    : null;
}

/** The id of the request that a message answers; "" if it answers none. */
export function parentOf(frame: ArrayBuffer): string {
  return idIn(textOf(frame, Part.parent));
}

/** The message's own id. */
export function idOf(frame: ArrayBuffer): string {
  return idIn(textOf(frame, Part.header));
}

export function typeOf(frame: ArrayBuffer): string {
  const header = JSON.parse(textOf(frame, Part.header)) as {
    msg_type?: string;
  };
  return header.msg_type ?? '';
}

export function channelOf(frame: ArrayBuffer): string {
  return textOf(frame, Part.channel);
}

export function contentOf(frame: ArrayBuffer): unknown {
  return JSON.parse(textOf(frame, Part.content));
}

/**
 * An update of a widget's state, as if it came from the kernel after *frame*, or, with a *session*, as
 * that client sends it to the kernel.
 */
export function widgetUpdate(
  frame: ArrayBuffer,
  comm_id: string,
  state: object,
  session?: string
): ArrayBuffer {
  const header = {
    ...(JSON.parse(textOf(frame, Part.header)) as object),
    ...(session && { session }),
    msg_id: crypto.randomUUID(),
    msg_type: 'comm_msg'
  };
  const data = { method: 'update', state, buffer_paths: [] };
  const parts = [header, {}, {}, { comm_id, data }].map(part =>
    encoder.encode(JSON.stringify(part))
  );
  parts.unshift(encoder.encode(session ? 'shell' : 'iopub'));
  const offsets = [8 * (parts.length + 2)];
  parts.forEach((part, index) =>
    offsets.push(offsets[index] + part.byteLength)
  );
  const made = new Uint8Array(offsets[parts.length]);
  const view = new DataView(made.buffer);
  [offsets.length, ...offsets].forEach((value, index) =>
    view.setBigUint64(8 * index, BigInt(value), true)
  );
  parts.forEach((part, index) => made.set(part, offsets[index]));
  return made.buffer;
}

function idIn(header: string): string {
  return (JSON.parse(header) as { msg_id?: string }).msg_id ?? '';
}

function textOf(frame: ArrayBuffer, part: Part): string {
  const view = new DataView(frame);
  const offset = (index: number) =>
    Number(view.getBigUint64(8 * (index + 1), true));
  return decoder.decode(frame.slice(offset(part), offset(part + 1)));
}

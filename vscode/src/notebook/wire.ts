// Kernel messages on a websocket (v1.kernel.websocket.jupyter.org): offsets (64 bits, little-endian),
// then channel, header, parent header, metadata, content, and buffers.

import { randomUUID } from 'node:crypto';

export const PROTOCOL = 'v1.kernel.websocket.jupyter.org';

/** Of Jupyter's messages. */
const VERSION = '5.3';

export type Channel = 'shell' | 'control' | 'iopub' | 'stdin';

export interface IHeader {
  msg_id: string;
  msg_type: string;
  session: string;
  username: string;
  /** ISO 8601, by the clock of the computer that sent it. */
  date: string;
  version: string;
}

export interface IMessage {
  channel: Channel;
  header: IHeader;
  parent_header: Partial<IHeader>;
  metadata: Record<string, unknown>;
  // What a message has depends on its type: the reader knows it.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  content: any;
  /** Only widgets have some. */
  buffers?: Uint8Array[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function encode(message: IMessage): ArrayBuffer {
  const { channel, content, header, metadata, parent_header } = message;
  const texts = [header, parent_header, metadata, content].map(one =>
    JSON.stringify(one)
  );
  const parts = [channel, ...texts].map(part => encoder.encode(part));
  parts.push(...(message.buffers ?? []));
  const count = parts.length + 1; // the last offset is the end
  let offset = 8 * (count + 1);
  const size = parts.reduce((sum, part) => sum + part.length, offset);
  const frame = new Uint8Array(size);
  const view = new DataView(frame.buffer);
  view.setBigUint64(0, BigInt(count), true);
  parts.forEach((part, index) => {
    view.setBigUint64(8 * (index + 1), BigInt(offset), true);
    frame.set(part, offset);
    offset += part.length;
  });
  view.setBigUint64(8 * count, BigInt(offset), true);
  return frame.buffer;
}

/** Throws if it is none. */
export function decode(frame: ArrayBuffer): IMessage {
  const view = new DataView(frame);
  const offset = (index: number) =>
    Number(view.getBigUint64(8 * (index + 1), true));
  const bytes = (part: number) =>
    new Uint8Array(frame, offset(part), offset(part + 1) - offset(part));
  const text = (part: number) => decoder.decode(bytes(part));
  const [header, parent_header, metadata, content] = [1, 2, 3, 4].map(part =>
    JSON.parse(text(part))
  );
  const channel = text(0) as Channel;
  const count = Number(view.getBigUint64(0, true)) - 1; // the last offset is the end
  const buffers = Array.from({ length: count - 5 }, (_, index) =>
    bytes(5 + index)
  );
  return { channel, header, parent_header, metadata, content, buffers };
}

export function createMessage(
  msg_type: string,
  session: string,
  content: object,
  options: Partial<Pick<IMessage, 'channel' | 'metadata' | 'parent_header'>> & {
    id?: string;
  } = {}
): IMessage {
  return {
    channel: options.channel ?? 'shell',
    header: {
      msg_id: options.id ?? randomUUID(),
      msg_type,
      session,
      username: '',
      date: new Date().toISOString(),
      version: VERSION
    },
    parent_header: options.parent_header ?? {},
    metadata: options.metadata ?? {},
    content
  };
}

// Whether a notebook's file is complete: where the disk is full, VS Code writes its beginning, and says
// that it is saved.

import { open } from 'node:fs/promises';

/** Bytes that tell. */
const TAIL = 64;

/** False: its end is missing. Throws if it can't be read. */
export async function isComplete(path: string): Promise<boolean> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(TAIL, size));
    await file.read(buffer, 0, buffer.length, size - buffer.length);
    const tail = buffer.toString('latin1').trimEnd();
    // The last brace is at the beginning of its line, if there are lines.
    return tail.includes('\n') ? tail.endsWith('\n}') : tail.endsWith('}');
  } finally {
    await file.close();
  }
}

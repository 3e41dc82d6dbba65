// The server of last time, before a Python is asked, which takes a second: so a window that was reloaded
// shows at once what its cells print. Its token is not stored, but read from Jupyter's own file.

import { watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';

import { IServer } from './client';
import { isOwn } from './portOwner';

/** As much of VS Code's `Memento` as is needed. */
interface IMemory {
  get<T>(key: string): T | undefined;
  update(key: string, value: unknown): Thenable<void>;
}

interface IKnown extends Omit<IServer, 'token'> {
  /** How it was found: the Python, and its variables. */
  by: string;
}

const KEY = 'jupyterTpu.knownServer';
/** Milliseconds after which a change of Jupyter's files is complete. */
const SETTLED = 200;

export class KnownServer {
  constructor(private _memory: IMemory) {}

  /** The server, if it still runs and would be found in the same way. */
  async read(by: string): Promise<IServer | null> {
    const known = this._memory.get<IKnown>(KEY);
    if (known?.by !== by || !known.file) {
      return null;
    }
    try {
      const info = JSON.parse(await readFile(known.file, 'utf8'));
      const server = { ...known, token: info.token };
      return info.pid === known.pid && isOwn(server) ? server : null;
    } catch {
      return null; // it has ended
    }
  }

  /** Calls *listener* when a server begins or ends, until what this gives back is called. */
  watch(listener: () => void): () => void {
    const known = this._memory.get<IKnown>(KEY);
    let timer: ReturnType<typeof setTimeout>;
    try {
      const watcher = watch(dirname(known?.file ?? ''), () => {
        clearTimeout(timer);
        timer = setTimeout(listener, SETTLED);
      });
      watcher.on('error', () => watcher.close());
      return () => {
        clearTimeout(timer);
        watcher.close();
      };
    } catch {
      return () => undefined; // no server was found here yet
    }
  }

  async keep(by: string, { file, pid, root, url }: IServer): Promise<void> {
    const known: IKnown = { by, file, pid, root, url };
    await this._memory.update(KEY, known);
  }
}

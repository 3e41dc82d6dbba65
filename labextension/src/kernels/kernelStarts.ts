// Starts of kernels that the server refuses because the chips of their TPU are in use. They are held:
// JupyterLab waits, as for a slow start, and shows no error. chipsInUse.tsx asks the user meanwhile, and
// sends the request once more.

import { PathExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { PromiseDelegate, Token } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { language } from '../language/translation';

/** A header, "1": the kernel uses no chips. As in server/kernel_errors.py. */
const WITHOUT_CHIPS = 'X-Jupyter-TPU-Without-Chips';

type Fetch = ServerConnection.ISettings['fetch'];

/** Why the server did not start a kernel. */
export interface IRefusal {
  message: string;
  hint: string;
}

/** Whose kernel is started: a new session's, or that of a session that changes its kernel. */
export type StartingDocument =
  { folder: string; name: string } | { session: string };

interface IStart {
  document: StartingDocument;
  /** The name of the kernelspec. */
  kernel: string;
  send: (withoutChips: boolean) => Promise<Response>;
}

/** A start that waits for the user. */
export class HeldStart {
  constructor(
    private _start: IStart,
    public refusal: IRefusal,
    private _refused: (start: HeldStart) => void
  ) {}

  /** JupyterLab's request is answered with it. */
  readonly answer = new PromiseDelegate<Response>();
  isOver = false;

  get document(): StartingDocument {
    return this._start.document;
  }

  get kernel(): string {
    return this._start.kernel;
  }

  /** Sends the request once more. If it is refused for the same reason, it goes on waiting. */
  async again(withoutChips = false): Promise<void> {
    try {
      await this.take(this._start, await this._start.send(withoutChips));
    } catch (error) {
      this.isOver = true;
      this.answer.reject(error);
    }
  }

  /** Takes the answer of its request, or of a later one of the document, which replaces it. */
  async take(start: IStart, response: Response): Promise<void> {
    this._start = start;
    const refusal = await refusalIn(response);
    if (refusal) {
      this.refusal = refusal;
      this._refused(this);
    } else {
      this.isOver = true;
      this.answer.resolve(response);
    }
  }
}

export class KernelStarts {
  /** A start is refused, perhaps not for the first time. Without slots none is held. */
  readonly refused = new Signal<this, HeldStart>(this);
  /** Whether somebody asks the user. */
  isWatched = false;

  /** A fetch that holds starts. */
  holding(fetch: Fetch): Fetch {
    return async (input, init) => {
      askInLanguage(input);
      const start = this.isWatched
        ? await startIn(input, init ?? undefined, fetch)
        : null;
      if (!start) {
        return fetch(input, init);
      }
      const response = await start.send(false);
      const key = JSON.stringify(start.document);
      const earlier = this._held.get(key);
      if (earlier && !earlier.isOver) {
        // JupyterLab waits for the first answer before it restarts or shows widgets: that request
        // gets the kernel. Nothing needs the answer of this one.
        await earlier.take(start, response);
        return new Promise(() => undefined);
      }
      const refusal = await refusalIn(response);
      if (!refusal) {
        return response;
      }
      const held = new HeldStart(start, refusal, one => this.refused.emit(one));
      this._held.set(key, held);
      this.refused.emit(held);
      return held.answer.promise.finally(() => this._held.delete(key));
    };
  }

  private _held = new Map<string, HeldStart>();
}

export const IKernelStarts = new Token<KernelStarts>(
  'jupyter-tpu:IKernelStarts',
  'The kernels that are not started because the chips of their TPU are in use.'
);

/** Why a kernel does not start is said in JupyterLab's language, which may not be the browser's. */
function askInLanguage(input: RequestInfo): void {
  if (
    input instanceof Request &&
    /\/api\/(kernels|sessions)\b/.test(input.url)
  ) {
    input.headers.set('Accept-Language', language);
  }
}

/** What a request starts; null if it is another request. */
async function startIn(
  input: RequestInfo,
  init: RequestInit | undefined,
  fetch: Fetch
): Promise<IStart | null> {
  if (!(input instanceof Request)) {
    return null;
  }
  const { method, url } = input;
  const [, session] =
    /\/api\/sessions(?:\/([^/]+))?$/.exec(new URL(url).pathname) ?? [];
  const isChange = session !== undefined && method === 'PATCH';
  const isNew = /\/api\/sessions$/.test(new URL(url).pathname);
  if (!isChange && !(isNew && method === 'POST')) {
    return null;
  }
  const body = (await input.clone().json()) as {
    kernel?: { name?: string; id?: string };
    name?: string;
    path?: string;
  };
  const { kernel } = body;
  if (!kernel?.name || kernel.id) {
    return null;
  }
  return {
    document: isChange
      ? { session }
      : { folder: PathExt.dirname(body.path ?? ''), name: body.name ?? '' },
    kernel: kernel.name,
    send: withoutChips => {
      const request = input.clone();
      if (withoutChips) {
        request.headers.set(WITHOUT_CHIPS, '1');
      }
      return fetch(request, init);
    }
  };
}

async function refusalIn(response: Response): Promise<IRefusal | null> {
  if (response.status !== 409) {
    return null;
  }
  const { hint, message, reason } = (await response.clone().json()) as {
    hint?: string;
    message: string;
    reason?: string;
  };
  return reason === 'CHIPS_HELD' ? { message, hint: hint ?? '' } : null;
}

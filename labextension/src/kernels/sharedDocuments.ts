// Documents that jupyter-collaboration shares, without loading the packages it comes from.

import { Contents } from '@jupyterlab/services';

/** The name of its content provider, and as much of that as is needed. */
const PROVIDER = 'rtc';

interface IContents extends Contents.IManager {
  defaultDrive?: Contents.IDrive;
}

interface IContentProvider {
  providers?: Map<string, { wsProvider?: IConnection | null }>;
}

/** A document's connection to the server: y-websocket's WebsocketProvider. */
interface IConnection {
  doc: unknown;
  synced: boolean;
  once(event: 'sync', listener: () => void): void;
}

/** Resolves when the document is the same in this page and on the server. */
export async function whenSynced(
  ydoc: unknown,
  contents: IContents
): Promise<void> {
  const connection = connectionOf(ydoc, contents);
  if (connection && !connection.synced) {
    await new Promise<void>(resolve => connection.once('sync', resolve));
  }
}

function connectionOf(
  ydoc: unknown,
  { defaultDrive }: IContents
): IConnection | null {
  let provider: (IContentProvider & object) | null | undefined;
  try {
    provider = defaultDrive?.contentProviderRegistry?.getProvider(PROVIDER);
  } catch {
    return null; // there is no such provider
  }
  for (const { wsProvider } of provider?.providers?.values() ?? []) {
    if (wsProvider?.doc === ydoc) {
      return wsProvider ?? null;
    }
  }
  return null;
}

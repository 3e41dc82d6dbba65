// Paths of the computer that runs Jupyter, as a user knows them: relative to the folder that Jupyter
// shows.

import { PageConfig, PathExt } from '@jupyterlab/coreutils';

import type { IPlace } from './fields';

/** The file dialog; null where there is none. The plugin for files sets it. */
export const paths: {
  pick: ((title: string, place: IPlace) => Promise<string | null>) | null;
} = { pick: null };

/** The path that the server understands: it begins with /, ~ or a drive's letter. */
export function serverPath(path: string): string {
  const text = path.trim();
  return /^([/~\\]|[a-zA-Z]:)/.test(text)
    ? text
    : PathExt.join(PageConfig.getOption('serverRoot') || '~', text);
}

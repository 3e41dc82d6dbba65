// Paths of the computer that runs Jupyter, as a user knows them: relative to the folder that Jupyter
// shows.

import { PageConfig } from '@jupyterlab/coreutils';

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
    : ['', '.'].includes(text)
      ? root()
      : `${root()}/${text}`;
}

/** The folder that Jupyter shows. */
function root(): string {
  return (PageConfig.getOption('serverRoot') || '~').replace(/\/+$/, '');
}

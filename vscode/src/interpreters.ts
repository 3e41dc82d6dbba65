// The Pythons of this computer that a user may mean: of this folder, conda, pyenv, uv, and of PATH. Files
// are looked at and no program is run, but `py` on Windows, which alone knows what is installed there.

import { readdir, readFile, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

export interface IInterpreter {
  path: string;
  /** Who made it: "conda", "pyenv", "uv"; or the name of its folder. */
  from: string;
}

/** Where to look. */
export interface IPlaces {
  home: string;
  /** The folders of the workspace. */
  folders: string[];
  environment: NodeJS.ProcessEnv;
  windows: boolean;
  /** What `py -0p` prints; "" without it. */
  launcher: () => Promise<string>;
}

/** Each once, those of the workspace first. */
export async function interpreters(places: IPlaces): Promise<IInterpreter[]> {
  const { environment, folders, home, launcher, windows } = places;
  const python = windows ? ['python.exe'] : ['bin', 'python'];
  const inside = (from: string, environments: string[]) =>
    environments.map(folder => ({ from, path: join(folder, ...python) }));
  const below = async (from: string, folder: string) => {
    const names = (await readdir(folder).catch(() => [])).sort().reverse();
    return inside(
      from,
      names.map(name => join(folder, name))
    );
  };
  const data = environment.XDG_DATA_HOME || join(home, '.local', 'share');
  const uv = environment.UV_PYTHON_INSTALL_DIR || join(data, 'uv', 'python');
  const found: IInterpreter[] = [
    ...folders.flatMap(folder =>
      ['.venv', 'venv', 'env'].map(name => ({
        from: name,
        path: windows
          ? join(folder, name, 'Scripts', 'python.exe')
          : join(folder, name, 'bin', 'python')
      }))
    ),
    ...inside('conda', await lines(join(home, '.conda', 'environments.txt'))),
    ...(await below(
      'pyenv',
      join(environment.PYENV_ROOT || join(home, '.pyenv'), 'versions')
    )),
    ...(await below('uv', uv)),
    ...(windows
      ? (await launcher())
          .split('\n')
          .map(line => /([A-Za-z]:\\.*\.exe)\s*$/.exec(line)?.[1] ?? '')
          .filter(Boolean)
          .map(path => ({ from: 'py', path }))
      : []),
    ...(environment.PATH ?? '')
      .split(delimiter)
      .filter(Boolean)
      .map(folder => ({
        from: 'PATH',
        path: join(folder, windows ? 'python.exe' : 'python3')
      }))
  ];
  const known = new Set<string>();
  const there: IInterpreter[] = [];
  for (const one of found) {
    if (!known.has(one.path) && (await isFile(one.path))) {
      known.add(one.path);
      there.push(one);
    }
  }
  return there;
}

async function lines(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(Boolean);
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() ?? false;
}

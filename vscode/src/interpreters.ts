// The Pythons of this computer that a user may mean: of this folder, conda, pyenv, uv, and of PATH. Files
// are looked at and no program is run, but `py` on Windows, which alone knows what is installed there.

import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';

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

/** A folder of a version that jupyter-tpu does not run on, as pyenv and uv name it. */
const TOO_OLD = /^(cpython-)?(2|3\.(\d|10))\b/;

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
      names.filter(name => !TOO_OLD.test(name)).map(name => join(folder, name))
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
    if (await isFile(one.path)) {
      // /bin is a link to /usr/bin. The file itself may be one to the Python of an environment.
      const folder = await realpath(dirname(one.path));
      const file = join(folder, basename(one.path));
      if (!known.has(file)) {
        known.add(file);
        there.push(one);
      }
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

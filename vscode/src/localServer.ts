// Finds or starts the Jupyter server of a Python, by its `jupyter tpu server`.

import { spawn } from 'node:child_process';

import { trans } from '../../labextension/src/language/translation';
import { IServer } from './client';

/**
 * Where a search for a server ended.
 *
 * missing: the Python has no jupyter-tpu; old: it has one without `jupyter tpu server`; broken: the
 * Python itself can't be run.
 */
export type Finding =
  | { state: 'running'; server: IServer }
  | { state: 'stopped' }
  | { state: 'missing' | 'old' }
  | { state: 'broken' | 'failed'; message: string };

/** Runs a module: with -P, none of the user's folder is imported in place of Python's own. */
export const RUN_MODULE = ['-P', '-m'];

/** What Python knows of us: a module, so that no program has to be in PATH. */
export const CLI = [...RUN_MODULE, 'jupyter_tpu.cli'];

/** Milliseconds: longer than the command's own limits. */
const LIMIT = 300_000;

export async function findServer(
  python: string,
  start: boolean,
  environment: NodeJS.ProcessEnv,
  signal?: AbortSignal
): Promise<Finding> {
  const args = [...CLI, 'server', '--json'];
  args.push(...(start ? ['--start'] : []));
  let result: IOutput;
  try {
    result = await output(python, args, environment, signal);
  } catch (error) {
    return { state: 'broken', message: (error as Error).message };
  }
  return judge(result);
}

export interface IOutput {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** What the answer of the command means. */
export function judge({ code, stderr, stdout }: IOutput): Finding {
  if (code !== 0) {
    if (/No module named '?jupyter_tpu/.test(stderr)) {
      return { state: 'missing' };
    }
    if (/^Unknown option: -P/m.test(stderr)) {
      return {
        state: 'failed',
        message: trans.__('jupyter-tpu needs Python 3.11 or newer.')
      };
    }
    // "No such command 'server'.", in any language.
    if (code === 2 && stderr.includes("'server'")) {
      return { state: 'old' };
    }
    const message = stderr.trim().split('\n').slice(-2).join(' ');
    return {
      state: 'failed',
      message: message || trans.__('Exit code %1', code)
    };
  }
  try {
    const server = JSON.parse(stdout) as IServer | null;
    if (server === null) {
      return { state: 'stopped' };
    }
    if (typeof server.token === 'string' && new URL(server.url)) {
      return { state: 'running', server };
    }
  } catch {
    // Something else is in front of it, or it is no JSON.
  }
  return {
    state: 'failed',
    message: trans.__('The answer of Python is not understood.')
  };
}

/** The program and its arguments that install jupyter-tpu: environments that uv made have no pip. */
export function installer(
  python: string,
  hasPip: boolean,
  hasUv: boolean
): [string, string[]] {
  const rest = ['--upgrade', 'jupyter-tpu'];
  if (hasPip) {
    return [python, [...RUN_MODULE, 'pip', 'install', ...rest]];
  }
  if (hasUv) {
    return ['uv', ['pip', 'install', '--python', python, ...rest]];
  }
  throw new Error(
    trans.__(
      '%1 has no pip. Install pip in it, or install uv, and try again.',
      python
    )
  );
}

/** Whether a program runs and ends with exit code 0. */
export async function succeeds(
  program: string,
  args: string[],
  environment: NodeJS.ProcessEnv
): Promise<boolean> {
  try {
    return (await output(program, args, environment)).code === 0;
  } catch {
    return false;
  }
}

export function output(
  python: string,
  args: string[],
  environment: NodeJS.ProcessEnv,
  signal?: AbortSignal
): Promise<IOutput> {
  return new Promise((resolve, reject) => {
    const process = spawn(python, args, {
      env: environment,
      signal,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT
    });
    let stdout = '';
    let stderr = '';
    process.stdout.on('data', part => (stdout += part));
    process.stderr.on(
      'data',
      part => (stderr = (stderr + part).slice(-10_000))
    );
    process.on('error', reject);
    process.on('close', code => resolve({ code, stdout, stderr }));
  });
}

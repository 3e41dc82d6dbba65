import { expect, it } from 'vitest';

import { explanation, windowObstacle } from '../src/explanation';
import { Session, State } from '../src/session';

function session(state: State, message = ''): Session {
  return { state, message, python: '/env/bin/python' } as Session;
}

it('says what to install, and into which Python', () => {
  expect(explanation(session('missing'))).toBe(
    'jupyter-tpu is not installed in /env/bin/python. Install it with: /env/bin/python -m pip install jupyter-tpu'
  );
  expect(explanation(session('old'))).toContain('--upgrade jupyter-tpu');
  expect(explanation(session('broken', 'ENOENT'))).toContain(
    '/env/bin/python can’t be run (ENOENT)'
  );
});

it('says nothing where there is a server, and why where nothing may start', () => {
  expect(explanation(session('running'))).toBe('');
  expect(explanation(session('idle'))).toContain('do not trust');
});

it('opens a window on a host only from a local window on the desktop', () => {
  expect(windowObstacle(false, undefined)).toBe('');
  expect(windowObstacle(false, 'ssh-remote')).toContain('(ssh-remote)');
  expect(windowObstacle(true, undefined)).toContain('in a browser');
  expect(windowObstacle(true, '127.0.0.1:8080')).toContain('in a browser');
});

import { afterEach, expect, it, vi } from 'vitest';

import { IGuard } from '../api';
import { button, disposeWidgets, listOf, openPanel, shows } from './opened';
import { aTPU } from './server';

const KEEP = 'POST tpus/us-central1-a~my-tpu/guard/keep';

function aGuard(more: Partial<IGuard> = {}): IGuard {
  return {
    action: 'stop',
    idle: 7200,
    max_cost: null,
    until: '',
    notice: 300,
    phase: 'watching',
    reason: 'idle',
    ends: '2099-01-01T12:00:00Z',
    busy: [],
    actor: 'host',
    problem: null,
    ...more
  };
}

afterEach(disposeWidgets);

it('says when a TPU stops itself, and keeps it for an hour', async () => {
  const { node, server } = await openPanel({
    ...listOf(aTPU({ guard: aGuard() })),
    [KEEP]: [200, aGuard()]
  });
  button(node, 'my-tpu').click();
  await shows(node, 'Stops at', ': idle');
  button(node, 'Keep it for an hour').click();
  await vi.waitFor(() =>
    expect(
      server.calls.map(({ method, path }) => `${method} ${path}`)
    ).toContain(KEEP)
  );
});

it('says what a TPU waits for, and why it can’t stop itself', async () => {
  const problem = {
    message: 'The account has no permission.',
    reason: 'PERMISSION' as const,
    hint: 'Grant it.',
    retry_after: null,
    scope: ''
  };
  const guard = aGuard({ ends: '', reason: '', busy: ['a job'], problem });
  const { node } = await openPanel(listOf(aTPU({ guard })));
  button(node, 'my-tpu').click();
  await shows(node, 'Waits: busy with a job', 'no permission. Grant it.');
  expect(node.textContent).not.toContain('Keep it');
});

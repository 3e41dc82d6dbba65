import { Notification } from '@jupyterlab/apputils';
import { afterEach, expect, it, vi } from 'vitest';

import { IGuard } from '../api';
import { addGuardNotices } from '../guardNotices';
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

afterEach(() => {
  disposeWidgets();
  Notification.dismiss();
  vi.useRealTimers();
});

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

it('warns once before a TPU stops, and takes that back when it is kept', async () => {
  const soon = (minutes: number) =>
    new Date(Date.now() + minutes * 60_000).toISOString();
  const tpu = aTPU({ guard: aGuard({ ends: soon(30) }) });
  const { actions, changes, server } = await openPanel({
    ...listOf(tpu),
    [KEEP]: [200, aGuard()]
  });
  vi.useFakeTimers({ now: Date.now() });
  addGuardNotices(actions);
  vi.advanceTimersByTime(24 * 60_000);
  expect(Notification.manager.notifications).toEqual([]);
  vi.advanceTimersByTime(2 * 60_000);
  const [warning] = Notification.manager.notifications;
  expect(warning.message).toContain('my-tpu: Stops at');
  const [keep] = warning.options.actions!;
  expect(keep.label).toBe('Keep It for an Hour');
  keep.callback(new MouseEvent('click'));
  changes.tpu({ ...tpu, guard: aGuard({ ends: soon(60) }) });
  expect(Notification.manager.notifications).toEqual([]);
  vi.useRealTimers();
  await vi.waitFor(() =>
    expect(server.calls.map(({ path }) => path)).toContain(KEEP.slice(5))
  );
});

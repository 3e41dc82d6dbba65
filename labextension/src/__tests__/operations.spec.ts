// Operations in the panel.

import { describe, expect, it, vi } from 'vitest';

import { submit } from '../lifecycle/formPage';
import { IOperation } from '../rest/api';
import { answerDialog, button, hides, openPanel, shows } from './opened';
import {
  aCost,
  aLoss,
  anOperation,
  aProblem,
  aStatus,
  aTPU,
  listOf
} from './server';

describe('an operation', () => {
  const running = anOperation({
    progress: 0.4,
    steps: [
      { title: 'Reach the hosts', state: 'done', hosts_done: 4, hosts: 4 },
      { title: 'Install JAX', state: 'running', hosts_done: 2, hosts: 4 }
    ],
    log: ['Collecting jax']
  });

  it('shows progress, its step, its log, and can be cancelled', async () => {
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU({ connection: 'connecting' })),
      'GET operations/o1': [200, running],
      'DELETE operations/o1': [
        200,
        { ...running, state: 'cancelled' } satisfies IOperation
      ]
    });
    changes.operation({ ...running, log: [] });
    await shows(node, 'Connecting my-tpu', 'Install JAX · 2 of 4 hosts');
    const bar = node.querySelector('[role=progressbar]');
    expect(bar?.getAttribute('aria-valuenow')).toBe('40');
    button(node, 'Show details').click();
    await shows(node, 'Collecting jax');
    button(node, 'Cancel').click();
    await shows(node, 'Connecting my-tpu was cancelled');
    expect(server.count('DELETE operations/o1')).toBe(1);
    button(node, 'Dismiss').click();
    await vi.waitFor(() => {
      expect(node.querySelector('.jp-tpu-Operation')).toBeNull();
    });
  });

  it('that failed says why and what to do, and can be tried again', async () => {
    const problem = aProblem(
      'The disk is full.',
      'DISK_FULL',
      'Free disk space.'
    );
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU()),
      'POST tpus/us-central1-a~my-tpu/connect': [202, anOperation({ id: 'o2' })]
    });
    changes.operation(anOperation({ state: 'failed', problem }));
    await shows(
      node,
      'my-tpu could not be connected',
      'The disk is full.',
      'Free disk space.'
    );
    button(node, 'Try Again').click();
    await shows(node, 'Connecting my-tpu');
    expect(node.textContent).not.toContain('could not be connected');
    expect(server.count('POST tpus/us-central1-a~my-tpu/connect')).toBe(1);
  });

  it('to create what failed opens the form as it was filled in', async () => {
    const created = anOperation({ kind: 'create', tpu: 'mine' });
    const { node, actions, changes } = await openPanel({
      'POST tpus': [202, created]
    });
    await actions.model.loadCatalog();
    actions.forms.create.set('name', 'mine');
    actions.forms.create.set('type', 'v4-32');
    await submit(actions, actions.forms.create);
    const problem = aProblem(
      'No capacity.',
      'NO_CAPACITY',
      'Try another zone.'
    );
    changes.operation({ ...created, state: 'failed', problem });
    await shows(node, 'mine could not be created', 'No capacity.');
    button(node, 'Try Again').click();
    await vi.waitFor(() => {
      expect(node.querySelector('form input')).toHaveProperty('value', 'mine');
      expect(node.querySelector('form [role=combobox]')).toHaveProperty(
        'value',
        'v4-32'
      );
    });
  });
});

describe('what goes on without the user', () => {
  it('can be left, and comes back if it fails', async () => {
    const { node, changes } = await openPanel(listOf(aTPU()));
    const deleting = anOperation({ kind: 'delete', cancellable: false });
    changes.operation(deleting);
    await shows(node, 'Deleting my-tpu');
    expect(() => button(node, 'Cancel')).toThrow();
    button(node, 'Stop waiting').click();
    await vi.waitFor(() => {
      expect(node.querySelector('.jp-tpu-Operation')).toBeNull();
    });
    // It runs all the same: nothing else can be done with the TPU.
    expect(button(node, 'Actions for my-tpu').disabled).toBe(true);
    const problem = aProblem('You may not delete it.', 'PERMISSION');
    changes.operation({ ...deleting, state: 'failed', problem });
    await shows(node, 'my-tpu could not be deleted', 'You may not delete it.');
  });

  it('says what Google refuses to delete, until the user ends that', async () => {
    const problem = aProblem(
      'my-tpu is not deleted yet. It has disks.',
      'CONFLICT',
      '',
      { retry_after: 30 }
    );
    const creating = anOperation({ kind: 'create', undeleted: 'retrying' });
    const cost = aCost();
    const { node, changes, server } = await openPanel({
      ...listOf(aTPU({ emulated: false, cost, problem, queued: 'asked-for' })),
      'GET tpus/us-central1-a~my-tpu/consequences': aLoss({
        lost: ['Its queued resource asked-for is deleted, too.']
      }),
      'POST operations/o1/stop-trying': [202, creating]
    });
    expect(() => button(node, 'Stop Trying…')).toThrow();
    changes.operation(creating);
    await shows(node, 'Deleting my-tpu', 'It has disks.', 'in 30 s.');
    button(node, 'Stop Trying…').click();
    await answerDialog('Cancel');
    button(node, 'Stop Trying…').click();
    expect(await answerDialog('Stop Trying')).toContain(
      'You keep paying for it: About $9.60 an hour'
    );
    await expect.poll(() => server.posts).toEqual([{ keep_tpu: true }]);
    changes.operation({
      ...creating,
      state: 'failed',
      undeleted: 'kept',
      problem: { ...problem, message: 'my-tpu is READY. It has disks.' }
    });
    await shows(node, 'my-tpu could not be deleted', 'my-tpu is READY.');
    expect(() => button(node, 'Stop Trying…')).toThrow();
    button(node, 'Try Again').click();
    const question = await answerDialog('Cancel');
    expect(question).toContain('Delete my-tpu?');
    expect(question).toContain('Its queued resource asked-for');
  });

  it('says when it is tried again', async () => {
    const problem = aProblem('Too many requests.', 'RATE_LIMITED', '', {
      retry_after: 30,
      scope: 'project'
    });
    const { node, server } = await openPanel({
      ...listOf(aTPU({ state: 'STOPPED', problem })),
      'POST tpus/us-central1-a~my-tpu/start': [429, problem]
    });
    await shows(node, 'Too many requests.', 'Trying again in 30 s.');
    button(node, 'Start').click();
    await shows(node, 'Try again in 30 s.'); // this one only the user can
    expect(server.count('POST tpus/us-central1-a~my-tpu/start')).toBe(1);
  });

  it('shows which of the server’s tasks fail, until they work', async () => {
    const loop = {
      name: 'poll of Google',
      failing: true,
      failures: 3,
      last_failure: '2026-10-14T10:00:00Z',
      last_error: 'OSError: no space'
    };
    const fine = { ...loop, name: 'TPUs', failing: false };
    const { model, node, server } = await openPanel({
      ...listOf(aTPU()),
      'GET status': [200, aStatus({ loops: [loop, fine] })]
    });
    await shows(node, 'task of the server (poll of Google) fails: OSError');
    expect(node.textContent).not.toContain('(TPUs)');
    server.answers['GET status'] = [200, aStatus({ loops: [fine] })];
    await model.refresh();
    await hides(node, 'OSError');
  });
});

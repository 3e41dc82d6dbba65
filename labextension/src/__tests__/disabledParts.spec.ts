import { Notification } from '@jupyterlab/apputils';
import { expect, it, vi } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { ACTIONS } from '../actions/table';
import { Action } from '../model/availableActions';
import { keyOf } from '../rest/tpuRef';
import { button, notified, openPanel, shows } from './opened';
import {
  aJob,
  anApp,
  anOperation,
  connectedTPU,
  listOf,
  refused
} from './server';

const TPU = connectedTPU({ hosts: [] });
const READY = { tpu: keyOf(TPU) };

/** The panel, without the part that has a command. */
function openWithout(command: string) {
  const others = new Set(
    Object.values(ACTIONS).flatMap(({ shownBy }) => shownBy ?? [])
  );
  others.delete(command);
  return openPanel(
    {
      ...listOf(TPU),
      'GET apps': [200, [anApp()]],
      'GET jobs': [200, [aJob()]]
    },
    others
  );
}

it.each<[string, Action[]]>([
  [CommandIDs.showApp, ['app', 'profile', 'ray', 'tensorboard']],
  [CommandIDs.showFiles, ['browse']],
  [CommandIDs.showJob, ['job', 'serve']],
  [CommandIDs.showRun, ['run']]
])('without %s, %j are not offered, and start nothing', async (id, actions) => {
  const opened = await openWithout(id);
  for (const action of Object.keys(ACTIONS) as Action[]) {
    const enabled = opened.commands.isEnabled(ACTIONS[action].command, READY);
    if (actions.includes(action)) {
      expect(enabled, action).toBe(false);
      await opened.actions.act(action, TPU);
    } else if (ACTIONS[action].shownBy) {
      expect(enabled, action).toBe(true);
    }
  }
  expect(notified()).toEqual(
    actions.map(() => 'error: This part of the TPU extension is disabled.')
  );
  expect(opened.server.calls.every(({ method }) => method === 'GET')).toBe(
    true
  );
  expect(document.querySelector('.jp-Dialog')).toBeNull();
});

it.each([
  [CommandIDs.showApp, ['Open a web app on my-tpu', 'Show TensorBoard']],
  [CommandIDs.showJob, ['New job on my-tpu', 'Show the output of train']]
])('without %s, the buttons %j do nothing', async (id, labels) => {
  const { actions, node } = await openWithout(id);
  await actions.open.tpu(TPU);
  await shows(node, 'Jobs');
  for (const label of labels) {
    const item = await vi.waitFor(() => button(node, label));
    expect(item.disabled, label).toBe(true);
  }
});

it('says why what was started is not shown', async () => {
  const { actions, commands } = await openPanel(listOf(TPU));
  const fail = async () => {
    throw new Error('There is no notebook here.');
  };
  const describedBy = { args: { type: 'object' } };
  commands.addCommand('notebook:create-new', { describedBy, execute: fail });
  await actions.open.notebook(TPU);
  expect(notified()).toEqual(['error: There is no notebook here.']);
  Notification.dismiss();
  await actions.act('console', TPU);
  expect(notified()[0]).toContain('console:create');
});

it('says why the kernels of a TPU are not listed', async () => {
  const { actions, node } = await openPanel({
    ...listOf(TPU),
    'GET tpus/us-central1-a~my-tpu/kernels': refused('Host 0 is silent.')
  });
  void actions.open.tpu(TPU);
  await shows(node, 'Kernels', 'Host 0 is silent.');
});

it('says why a trace is not shown although it was taken', async () => {
  const { model } = await openPanel({
    ...listOf(TPU),
    'POST tpus/us-central1-a~my-tpu/profiles': [
      202,
      anOperation({ kind: 'profile', state: 'done', app: 'a9' })
    ]
  });
  const traced = model.sendForApp(TPU, client =>
    client.profiles.start(TPU, { seconds: 1 })
  );
  expect(await traced).toBeNull();
  expect(model.failure(TPU)?.reason).toBe('CLOSED');
});

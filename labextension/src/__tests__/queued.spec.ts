import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { IQueuedResource } from '../rest/api';
import { answerDialog, button, openPanel, shows, typeInDialog } from './opened';
import { anOperation, aQueuedResource, refused } from './server';

const ACTIVE = aQueuedResource({
  name: 'big',
  meaning: 'Its TPUs exist. Connect them.',
  tpus: ['big-0', 'big-1'],
  has_tpus: true
});
const GONE: IQueuedResource = {
  ...ACTIVE,
  name: 'old',
  state: 'SUSPENDED',
  meaning: 'Its TPUs are gone.',
  tpus: ['old'],
  can_reset: true,
  has_tpus: false
};
const BIG = 'queued/us-west4-a~big';
const OLD = 'queued/us-west4-a~old';

function listed(...queued: IQueuedResource[]): [number, object] {
  return [200, { queued, problem: null }];
}

it('shows what queued resources wait for, and resets and deletes them', async () => {
  const { changes, commands, node, server } = await openPanel({
    'GET queued': listed(ACTIVE, GONE),
    [`POST ${OLD}/reset`]: [200, GONE],
    [`DELETE ${BIG}`]: [202, anOperation({ kind: 'unqueue', tpu: 'big' })]
  });
  await commands.execute(CommandIDs.queued);
  await shows(node, 'Active', 'Spot · emulated · big-0, big-1', 'Suspended');
  const waiting = { ...GONE, state: 'WAITING_FOR_RESOURCES', can_reset: false };
  server.answers['GET queued'] = listed(ACTIVE, waiting);
  button(node, 'Reset').click();
  await shows(node, 'Waiting for resources');
  expect(server.count(`POST ${OLD}/reset`)).toBe(1);

  button(node, 'Delete big').click();
  expect(await answerDialog('Delete')).toContain('big-0, big-1');
  await server.receives(`DELETE ${BIG}`, { force: true });
  server.answers['GET queued'] = listed();
  changes.queued(waiting);
  await shows(node, 'There are no queued resources.');
});

it('resets the queued resource of another person only by its name', async () => {
  const bobs = { ...GONE, owner: 'bob', not_yours: true };
  const { commands, node, server } = await openPanel({
    'GET queued': listed(bobs),
    [`POST ${OLD}/reset`]: [200, bobs]
  });
  await commands.execute(CommandIDs.queued);
  await shows(node, 'Suspended');
  button(node, 'Reset').click();
  expect(await answerDialog('Cancel')).toContain('old belongs to bob.');
  button(node, 'Reset').click();
  await typeInDialog('old');
  await answerDialog('Reset');
  await server.receives(`POST ${OLD}/reset`, { confirm_name: 'old' });
});

it('says why a reset was refused until the next one succeeds, not until the list is loaded', async () => {
  const { actions, commands, node, server } = await openPanel({
    'GET queued': refused('No answer.'),
    [`POST ${OLD}/reset`]: refused('Not now.')
  });
  await commands.execute(CommandIDs.queued);
  await shows(node, 'No answer.');
  // The next look has no answer yet.
  void actions.forms.queued.load(false);
  expect(node.textContent).toContain('No answer.');
  server.answers['GET queued'] = listed(GONE);
  await actions.forms.queued.load(false);
  await shows(node, 'Suspended');
  expect(node.textContent).not.toContain('No answer.');

  button(node, 'Reset').click();
  await shows(node, 'Not now.');
  expect(() => button(node, 'Try Again')).toThrow();
  const waiting = { ...GONE, state: 'WAITING_FOR_RESOURCES' };
  server.answers['GET queued'] = listed(waiting);
  await actions.forms.queued.load(false);
  await shows(node, 'Waiting for resources', 'Not now.');

  server.answers[`POST ${OLD}/reset`] = [200, GONE];
  server.answers['GET queued'] = listed(GONE);
  button(node, 'Reset').click();
  await shows(node, 'Suspended');
  expect(node.textContent).not.toContain('Not now.');
});

it('opens the form for a TPU that waits in the queue', async () => {
  const { actions, commands, node } = await openPanel({
    'GET queued': listed(ACTIVE)
  });
  await commands.execute(CommandIDs.queued);
  await shows(node, 'Active', 'Wait for a TPU…');
  button(node, 'Wait for a TPU…').click();
  await shows(node, 'Wait in Google’s queue', 'Start Hunt');
  expect(actions.forms.create.huntRequest).toMatchObject({
    tpu: { connect: {} },
    queued: true
  });
});

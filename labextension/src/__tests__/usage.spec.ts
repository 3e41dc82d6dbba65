import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { keep } from '../guard/guardDialog';
import { IUsage, IUsedTPU } from '../rest/api';
import { answerDialog, button, openPanel, shows, typeInDialog } from './opened';
import { aCost, anOperation, aProblem, aTPU, listOf, refused } from './server';

const COST = aCost({ usd: 88.32 });
const USED: IUsedTPU = {
  kind: 'tpu',
  name: 'my-tpu',
  zone: 'us-west4-a',
  project: 'p',
  type: 'v5litepod-8',
  meaning: '',
  tier: 'on-demand',
  state: 'READY',
  advice: 'It is billed, used or not.',
  chips: 8,
  holds: 'chips',
  owner: 'ana',
  owner_source: 'label',
  mine: true,
  created: new Date(Date.now() - 4 * 86400_000).toISOString(),
  cost: COST,
  connected: false,
  forgotten: true
};
const USAGE: IUsage = {
  me: 'ana',
  projects: ['p'],
  emulated: false,
  chips: 24,
  tpus: [
    USED,
    { ...USED, name: 'bobs', owner: 'bob', mine: false, forgotten: false },
    {
      ...USED,
      kind: 'queued',
      name: 'old',
      state: 'FAILED',
      holds: 'quota',
      advice: 'It still uses quota.',
      owner: '',
      mine: false,
      forgotten: false,
      cost: { ...COST, usd: 0, usd_per_hour: 0 }
    }
  ],
  owners: [
    {
      owner: 'ana',
      mine: true,
      tpus: 1,
      chips: 8,
      blocked_chips: 16,
      usd_per_hour: 9.6,
      usd: 88.32,
      unpriced: 0
    },
    {
      owner: 'carl',
      mine: false,
      tpus: 0,
      chips: 0,
      blocked_chips: 0,
      usd_per_hour: 0,
      usd: 0,
      unpriced: 0
    }
  ],
  problems: [
    aProblem('us-east5-a did not answer.', 'UNAVAILABLE', 'Try again.')
  ]
};

it('shows who has what, why it may be incomplete, and what can be done', async () => {
  const { commands, node, server } = await openPanel({
    ...listOf(aTPU({ zone: 'us-west4-a' })),
    'GET usage': [200, USAGE]
  });
  await commands.execute(CommandIDs.usage);
  await shows(
    node,
    'You hold 8 of 24 chips · about $9.60 an hour · about $88.32 so far · preempted TPUs and failed queued resources use quota for 16 chips',
    'carl has no chips',
    'us-east5-a did not answer.',
    'Forgotten?',
    'v5litepod-8 · us-west4-a · bob · 4 days ago',
    'owner unknown',
    'It still uses quota.'
  );
  expect(server.bodies('GET usage')).toHaveLength(1);
  expect(button(node, 'Actions for my-tpu').disabled).toBe(false);
});

it('deletes, stops, keeps or adopts the TPU of another person only by its name', async () => {
  const bobs = aTPU({ name: 'bobs', owner: 'bob', not_yours: true });
  const used = { ...USED, name: 'bobs', zone: bobs.zone, mine: false };
  const { actions, commands, node, server } = await openPanel({
    ...listOf(bobs),
    'GET usage': [200, { ...USAGE, tpus: [used] }],
    'POST tpus/us-central1-a~bobs/adopt': [200, { ...used, mine: true }],
    'DELETE tpus/us-central1-a~bobs': refused('bobs belongs to bob.'),
    'POST tpus/us-central1-a~bobs/stop': [202, anOperation({ kind: 'stop' })],
    'POST tpus/us-central1-a~bobs/start': [202, anOperation({ kind: 'start' })],
    'POST tpus/us-central1-a~bobs/guard/keep': [200, {}]
  });
  await commands.execute(CommandIDs.usage);
  await shows(node, 'Adopt…');
  button(node, 'Adopt…').click();
  await typeInDialog('bobs');
  expect(await answerDialog('Adopt')).toContain('bobs belongs to bob');
  await server.receives('POST tpus/us-central1-a~bobs/adopt', {
    confirm_name: 'bobs'
  });
  const deleting = actions.act('delete', bobs);
  await answerDialog('Delete');
  await typeInDialog('other');
  await answerDialog('Delete');
  await deleting;
  expect(server.bodies('DELETE tpus/us-central1-a~bobs')).toMatchObject([
    { confirm_name: 'other' }
  ]);
  await shows(node, 'bobs belongs to bob.');
  const stopping = actions.act('stop', bobs);
  await answerDialog('Stop');
  await typeInDialog('bobs');
  await answerDialog('Stop');
  await stopping;
  const starting = actions.act('start', { ...bobs, emulated: true });
  await typeInDialog('bobs');
  await answerDialog('Start');
  await starting;
  const keeping = keep(actions, bobs);
  await typeInDialog('bobs');
  await answerDialog('Keep');
  await keeping;
  for (const act of ['stop', 'start', 'guard/keep']) {
    expect(server.bodies(`POST tpus/us-central1-a~bobs/${act}`)).toMatchObject([
      { confirm_name: 'bobs' }
    ]);
  }
});

import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { IBudgetOverview, IPlan } from '../rest/api';
import {
  aTPU,
  button,
  hides,
  openPage,
  openPanel,
  press,
  shows,
  type
} from './opened';

const PLAN = {
  id: '1a2b3c4d',
  name: 'my-tpu',
  type: 'v5litepod-8',
  most: 9.92,
  outside: 'There is no budget for coding agents.',
  guard: 'It is deleted 60 min after its creation begins.'
} as IPlan;

const OVERVIEW: IBudgetOverview = {
  me: 'ana',
  emulated: false,
  budgets: [
    {
      budget: { who: 'agent', day: 20, types: ['v5e'] },
      spent_today: 3.2,
      spent: 3.2,
      committed: 1.5,
      left: 15.3,
      expired: false,
      text: 'spent $3.20 of $20.00 today'
    }
  ],
  spending: [],
  questions: []
};

it('shows in one line what agents have spent today, and sets a budget', async () => {
  const { commands, node, server } = await openPanel({
    'GET budgets': [200, OVERVIEW],
    'POST budgets': [201, { ...OVERVIEW, budgets: [] }],
    'DELETE budgets/agent': [204, '']
  });
  await shows(node, 'Agents: spent $3.20 of $20.00 today');
  await commands.execute(CommandIDs.budgets);
  await shows(node, 'running TPUs may cost $1.50 more', 'v5e');
  expect(button(node, 'Set Budget').disabled).toBe(true);
  const day = node.querySelectorAll<HTMLInputElement>('form input')[1];
  type(day, '5');
  await press(node, 'Set Budget');
  await shows(node, 'There are no budgets.');
  expect(server.bodies('POST budgets')).toEqual([
    {
      who: 'agent',
      day: 5,
      total: null,
      folder: '',
      types: [],
      zones: [],
      until: ''
    }
  ]);
});

it('asks a person about a plan outside of the budget, and sends the answer', async () => {
  const { node, server } = await openPanel({
    'GET budgets': [200, { ...OVERVIEW, budgets: [], questions: [PLAN] }],
    'POST plans/1a2b3c4d/answer': [200, PLAN]
  });
  await shows(
    node,
    'A coding agent asks for my-tpu (v5litepod-8): at most $9.92',
    'There is no budget for coding agents.'
  );
  server.answers['GET budgets'] = [200, { ...OVERVIEW, budgets: [] }];
  button(node, 'Refuse').click();
  await hides(node, 'asks for');
  expect(server.bodies('POST plans/1a2b3c4d/answer')).toEqual([
    { approve: false }
  ]);
});

it('lets agents run code on a TPU of a person, and no longer', async () => {
  const path = 'POST tpus/us-central1-a~my-tpu/agents';
  const { node, server } = await openPage(aTPU(), {
    'GET budgets': [200, OVERVIEW],
    [path]: [200, aTPU({ agents_may_use: true })]
  });
  await shows(node, 'No access');
  button(node, 'Let coding agents run code on my-tpu').click();
  await server.receives(path, { allowed: true, confirm_name: '' });
});

it('says of a TPU that an agent has created that agents run code there', async () => {
  const line = { who: 'agent', tpu: 'my-tpu', zone: 'us-central1-a' };
  const spending = [
    { ...line, id: '1', type: 'v4-8', state: 'ready', usd: 1, most: 2 }
  ] as IBudgetOverview['spending'];
  const { node } = await openPage(aTPU({ agents_may_use: true }), {
    'GET budgets': [200, { ...OVERVIEW, spending }]
  });
  await shows(node, 'May run code here');
  await hides(node, 'Deny');
});

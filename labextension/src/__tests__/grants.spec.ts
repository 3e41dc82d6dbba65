import { expect, it } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { GrantsForm } from '../money/grantsForm';
import { IGrantUse } from '../rest/api';
import { button, catalogWith, openPanel, press, shows, type } from './opened';

const USE: IGrantUse = {
  grant: {
    name: 'trc-v5e',
    project: 'p',
    types: ['v5e'],
    zones: ['us-central1-a'],
    tiers: ['spot'],
    chips: 64,
    until: '2026-12-31'
  },
  used: 8,
  expired: false
};

it('shows what is left of each grant, adds one and removes one', async () => {
  const { commands, node, server } = await openPanel({
    'GET grants': [200, []],
    'POST grants': [201, [USE, { ...USE, grant: { ...USE.grant, name: 'b' } }]],
    'DELETE grants/b': [204, '']
  });
  await commands.execute(CommandIDs.grants);
  await shows(node, 'There are no grants.');
  expect(button(node, 'Add Grant').disabled).toBe(true);
  const texts = ['trc-v5e', 'v5e, v5litepod-8', 'us-central1-a', '64'];
  const inputs = node.querySelectorAll<HTMLElement>('form input');
  texts.forEach((text, index) => type(inputs[index], text));
  await press(node, 'Add Grant');
  await shows(
    node,
    'trc-v5e',
    'v5e · us-central1-a · Spot',
    '8 of 64 chips in use · until 2026-12-31'
  );
  expect(server.bodies('POST grants')).toEqual([
    {
      name: 'trc-v5e',
      types: ['v5e', 'v5litepod-8'],
      zones: ['us-central1-a'],
      tiers: ['spot'],
      chips: 64,
      until: ''
    }
  ]);
  server.answers['GET grants'] = [
    200,
    [
      {
        grant: { ...USE.grant, chips: 1, until: '' },
        used: null,
        expired: true
      }
    ]
  ];
  button(node, 'Remove b').click();
  await shows(node, 'expired', '1 chip');
  expect(node.textContent).not.toContain('1 chips');
  expect(() => button(node, 'Remove b')).toThrow();
});

it('shows the last answer, also when an earlier one arrives later', async () => {
  const answers: ((items: IGrantUse[]) => void)[] = [];
  const form = new GrantsForm({
    list: () => new Promise(resolve => answers.push(resolve)),
    add: async () => [USE],
    remove: async () => undefined
  });
  const first = form.list.load();
  const second = form.list.load();
  answers[1]([USE]);
  await second;
  answers[0]([]);
  await first;
  expect(form.list.value).toEqual([USE]);

  const third = form.list.load();
  await form.submit();
  answers[2]([]);
  await third;
  expect(form.list.value).toEqual([USE]);
});

it('is said with the price of a new TPU, as it changes, and is one click from there', async () => {
  const { actions, changes, node, server } = await openPanel({
    ...catalogWith({ emulated: false }),
    'GET grants': [200, [USE]]
  });
  actions.openCreateForm();
  await shows(node, 'About $9.60 an hour', 'only network traffic is billed.');
  actions.forms.create.set('tier', 'spot');
  await shows(
    node,
    'In the grant trc-v5e: $0.00 an hour plus network traffic. Otherwise about $5.04 an hour'
  );
  expect(node.textContent).not.toContain('You pay while it is ready');
  server.answers['GET grants'] = [200, [{ ...USE, used: 60 }]];
  changes.grant(USE.grant);
  await shows(node, 'About $5.04 an hour', 'You pay while it is ready');
  button(node, 'Grants…').click();
  await shows(node, '60 of 64 chips in use');
});

import { expect, it } from 'vitest';

import { button, field, hides, openPanel, shows, type } from './opened';
import { anOperation } from './server';

const PART = 'Run a command, stop automatically';

it('has a part for what a TPU does while nobody is there, which says what is chosen', async () => {
  const { actions, node, server } = await openPanel({
    'POST tpus': [202, anOperation({ kind: 'create' })]
  });
  button(node, 'New TPU').click();
  await shows(node, PART);
  expect(node.textContent).not.toContain('Cost limit in US dollars');
  // What a TPU costs that was forgotten stands with its price.
  await shows(
    node,
    'When it is idle',
    'Keep it running',
    'Stop it after 2 hours'
  );
  button(node, PART).click();
  await shows(node, 'Starts as a job on all hosts when it is connected.');
  type(field(node, 'Command'), 'python train.py');
  type(field(node, 'Cost limit in US dollars'), '20');
  actions.forms.create.set('idle', 7200);
  button(node, PART).click();
  await shows(node, 'python train.py · $20.00');
  button(node, 'Create').click();
  await server.counts('POST tpus');
  expect(server.bodies('POST tpus')[0]).toMatchObject({
    connect: { then_run: 'python train.py' },
    guard: { action: 'stop', idle: 7200, max_cost: 20 }
  });
});

it('marks the field that the server refuses, also in a folded part, until it is changed', async () => {
  const message = 'This TPU costs nothing, so no cost limit can be set.';
  const { actions, node } = await openPanel({
    'POST tpus': [400, { message, reason: 'INVALID', field: 'max_cost' }]
  });
  button(node, 'New TPU').click();
  await shows(node, PART);
  actions.forms.create.set('max_cost', 20);
  button(node, 'Create').click();
  await expect
    .poll(() => document.activeElement?.getAttribute('type'))
    .toBe('number');
  const cost = document.activeElement as HTMLInputElement;
  expect(cost.getAttribute('aria-invalid')).toBe('true');
  const help = document.getElementById(cost.getAttribute('aria-describedby')!);
  expect(help?.textContent).toBe(message);
  type(cost, '30');
  await hides(node, message);
  expect(document.activeElement).toBe(cost);
});

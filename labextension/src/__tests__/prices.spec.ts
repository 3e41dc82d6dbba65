import { afterEach, expect, it, vi } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { button, disposeWidgets, openPanel, shows } from './opened';

afterEach(disposeWidgets);

const PRICE = {
  name: 'v5e',
  region: 'us-west4',
  on_demand: 1.2,
  spot: 0.51,
  date: '2024-12-23',
  flex_start: null
};

it('lists the price of a chip with its date, and reads the prices from Google', async () => {
  const problem = { message: 'Log in first.', reason: 'AUTH', hint: '' };
  const { commands, node, server } = await openPanel({
    'GET prices': [200, { read: '', prices: [PRICE], unknown: [] }],
    'POST prices/refresh': [401, problem]
  });
  await commands.execute(CommandIDs.prices);
  await shows(node, 'v5e', 'us-west4', '$1.20', 'Spot $0.51', '2024-12-23');
  await shows(node, 'Not read from Google yet.');

  // What was known stays where it can't be read.
  button(node, 'Update From Google').click();
  await shows(node, 'Log in first.', 'Spot $0.51');
  server.answers['POST prices/refresh'] = [
    200,
    {
      read: new Date().toISOString(),
      prices: [{ ...PRICE, on_demand: 1.1, spot: null }],
      unknown: []
    }
  ];
  button(node, 'Update From Google').click();
  await shows(node, '$1.10', 'Read from Google: ');
  expect(node.textContent).not.toContain('Spot');
  await vi.waitFor(() =>
    expect(button(node, 'Update From Google').disabled).toBe(false)
  );
  expect(server.count('GET prices')).toBe(1);
});

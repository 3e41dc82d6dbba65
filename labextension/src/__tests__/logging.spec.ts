import { expect, it } from 'vitest';

import { answerDialog, notified, openPage, press } from './opened';
import { aTPU, refused } from './server';

const PATH = 'tpus/us-central1-a~my-tpu/logging';
const STORED = {
  tpu: 'my-tpu',
  zone: 'us-central1-a',
  project: 'p',
  emulated: false,
  enabled: true,
  filter: 'resource.type="tpu_worker"',
  usd_per_gib: 0.5,
  free_gib: 50,
  price_date: '2026-09-12'
};

/** What the dialog says; *answer* is pressed there, and the server *gets* or refuses it. */
async function choose(
  now: object,
  answer: string,
  change: [number, object]
): Promise<{ text: string; bodies: unknown[] }> {
  const { node, server } = await openPage(aTPU(), {
    [`GET ${PATH}`]: [200, now],
    [`POST ${PATH}`]: change
  });
  await press(node, 'Cloud Logging of my-tpu…');
  const text = await answerDialog(answer);
  if (answer !== 'Close') {
    await expect
      .poll(notified)
      .toEqual([expect.not.stringMatching(/^in-progress/)]);
  }
  return { text, bodies: server.bodies(`POST ${PATH}`) };
}

it('stores no logs of a TPU after it has said what they cost', async () => {
  const off = { ...STORED, enabled: false };
  const { text, bodies } = await choose(STORED, 'Stop Storing Logs', [
    200,
    off
  ]);
  expect(text).toContain('Cloud Logging stores the logs of my-tpu.');
  expect(text).toContain('50 GiB of a project are free. More costs $0.50');
  expect(text).toContain(STORED.filter);
  expect(bodies).toEqual([{ enabled: false }]);
  expect(notified()).toEqual([
    'success: Cloud Logging does not store the logs of my-tpu.'
  ]);
});

it('stores them again, and says which role that needs', async () => {
  const { text, bodies } = await choose(
    { ...STORED, enabled: false, emulated: true },
    'Store Logs',
    refused(
      'Permission denied.',
      'PERMISSION',
      'Ask for the role Logs Configuration Writer.'
    )
  );
  expect(text).toContain('Hosts of an emulated TPU send no logs.');
  expect(bodies).toEqual([{ enabled: true }]);
  expect(notified()).toEqual([
    'error: Permission denied. Ask for the role Logs Configuration Writer.'
  ]);
});

it('changes nothing when the dialog is closed', async () => {
  const { bodies } = await choose(STORED, 'Close', [500, {}]);
  expect(bodies).toEqual([]);
});

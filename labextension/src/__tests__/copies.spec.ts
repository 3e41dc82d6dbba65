// Copies between the computer that runs Jupyter and a TPU: the dialog, and how a copy went.

import { expect, it } from 'vitest';

import { ICopyFiles, ICopyResult } from '../rest/api';
import {
  anOperation,
  Answer,
  answerDialog,
  aProblem,
  aTPU,
  button,
  choose,
  dialogInputs,
  dialogSelects,
  listOf,
  openAction,
  openPanel,
  shows,
  someHosts,
  type
} from './opened';

const COPIES = 'tpus/us-central1-a~my-tpu/copies';
const POD = aTPU({ hosts: someHosts(2) });
const BEGUN = {
  [`POST ${COPIES}`]: [202, anOperation({ kind: 'copy' })] as Answer
};

it.each<[string, Partial<ICopyFiles>]>([
  ['up', { download: false, hosts: '0' }],
  ['all', { download: false, hosts: 'all' }],
  ['down', { download: true, hosts: '0' }]
])('asks what to copy, and in which direction: %s', async (way, expected) => {
  const { done, server } = await openAction('copy', POD, BEGUN);
  const [source, destination] = await dialogInputs(2);
  choose(dialogSelects()[0], way);
  type(source, '~/my data');
  type(destination, 'there/');
  await answerDialog('Copy');
  await done;
  // On the computer that runs Jupyter, it is relative to what Jupyter shows.
  const there = way === 'down' ? '~/there/' : 'there/';
  expect(server.posts).toEqual([
    { sources: ['~/my data'], destination: there, ...expected }
  ]);
});

it('names the files that exist, and overwrites them when it is asked to', async () => {
  const { actions, changes, node, server } = await openPanel({
    ...listOf(POD),
    ...BEGUN
  });
  const request = {
    sources: ['/data'],
    destination: '',
    download: false,
    hosts: '0',
    overwrite: false
  };
  const result: ICopyResult = {
    request,
    copies: [],
    existing: ['data/a', 'data/b'],
    existing_count: 5
  };
  const copy = anOperation({
    kind: 'copy',
    state: 'failed',
    problem: aProblem('5 files exist.', 'EXISTS'),
    result: result as never
  });
  changes.operation(copy);
  actions.view.open(copy.id);
  await shows(node, '5 files exist.', 'data/a', 'data/b', '… and 3 more');
  button(node, 'Overwrite').click();
  await expect
    .poll(() => server.posts)
    .toEqual([{ ...request, overwrite: true }]);
});

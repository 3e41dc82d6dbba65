// Copies between the computer that runs Jupyter and a TPU: the dialog, and how a copy went.

import { afterEach, expect, it, vi } from 'vitest';

import { ACTIONS } from '../actions/table';
import { keyOf } from '../model/resources';
import { ICopyFiles, ICopyResult, IHost } from '../rest/api';
import {
  answerDialog,
  button,
  dialogInputs,
  disposeWidgets,
  listOf,
  openPanel,
  shows,
  type
} from './opened';
import { anOperation, aTPU } from './server';

const COPIES = 'tpus/us-central1-a~my-tpu/copies';
const host: IHost = {
  index: 0,
  internal_address: '',
  external_address: '',
  link: { state: 'up', since: '', problem: null }
};

afterEach(disposeWidgets);

async function open() {
  const tpu = aTPU({ hosts: [host, { ...host, index: 1 }] });
  const opened = await openPanel({
    ...listOf(tpu),
    [`POST ${COPIES}`]: [202, anOperation({ kind: 'copy' })]
  });
  const posts = () =>
    opened.server.calls.filter(one => one.method === 'POST').map(o => o.body);
  return { ...opened, tpu, posts };
}

it.each<[string, Partial<ICopyFiles>]>([
  ['up', { download: false, hosts: '0' }],
  ['all', { download: false, hosts: 'all' }],
  ['down', { download: true, hosts: '0' }]
])('asks what to copy, and in which direction: %s', async (way, expected) => {
  const { commands, posts, tpu } = await open();
  const done = commands.execute(ACTIONS.copy.command, { tpu: keyOf(tpu) });
  const [source, destination] = await dialogInputs(2);
  const direction =
    document.querySelector<HTMLSelectElement>('.jp-Dialog select')!;
  direction.value = way;
  direction.dispatchEvent(new Event('change', { bubbles: true }));
  type(source, '~/my data');
  type(destination, 'there/');
  await answerDialog('Copy');
  await done;
  // On the computer that runs Jupyter, it is relative to what Jupyter shows.
  const there = way === 'down' ? '~/there/' : 'there/';
  expect(posts()).toEqual([
    { sources: ['~/my data'], destination: there, ...expected }
  ]);
});

it('names the files that exist, and overwrites them when it is asked to', async () => {
  const { actions, changes, node, posts } = await open();
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
    problem: { reason: 'EXISTS', message: '5 files exist.', hint: '' } as never,
    result: result as never
  });
  changes.operation(copy);
  actions.view.open(copy.id);
  await shows(node, '5 files exist.', 'data/a', 'data/b', '… and 3 more');
  button(node, 'Overwrite').click();
  await vi.waitFor(() =>
    expect(posts()).toEqual([{ ...request, overwrite: true }])
  );
});

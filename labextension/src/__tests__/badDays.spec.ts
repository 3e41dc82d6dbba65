// Double clicks, long histories, blocked sockets, pages that are too old, and TPUs that are gone.

import { PageConfig } from '@jupyterlab/coreutils';
import { expect, it } from 'vitest';

import { clock } from '../language/translation';
import { operationTitle } from '../model/operationLabels';
import { endingOf } from '../panel/ending';
import { ICopyResult, ITPU } from '../rest/api';
import { VERSION } from '../rest/version';
import { serverPath } from '../ui/paths';
import {
  anOperation,
  answerDialog,
  aProblem,
  aStatus,
  aTPU,
  button,
  connectedTPU,
  dialogInputs,
  hides,
  listOf,
  openAction,
  openPage,
  openPanel,
  shows,
  someHosts,
  type
} from './opened';

const TPU = 'tpus/us-central1-a~my-tpu';

it('a double click asks the server once', async () => {
  const { actions, server } = await openPanel({
    ...listOf(aTPU()),
    [`POST ${TPU}/connect`]: [202, anOperation()]
  });
  const tpu = aTPU();
  await Promise.all([
    actions.act('connect', tpu),
    actions.act('connect', tpu),
    actions.act('connect', tpu)
  ]);
  expect(server.count(`POST ${TPU}/connect`)).toBe(1);
  await actions.act('connect', tpu);
  expect(server.count(`POST ${TPU}/connect`)).toBe(2);
});

it('of 200 that have ended the last few are shown, and all when they are asked for', async () => {
  const { changes, node } = await openPanel(listOf(aTPU()));
  for (let number = 0; number < 200; number += 1) {
    changes.operation(anOperation({ id: `o${number}` }));
    changes.operation(anOperation({ id: `o${number}`, state: 'done' }));
  }
  const ended = () => node.querySelectorAll('.jp-tpu-Operation').length;
  await expect.poll(ended).toBe(5);
  button(node, 'Show all 200 operations').click();
  await expect.poll(ended).toBe(200);
});

it('says where events do not arrive, until they do', async () => {
  const { changes, node } = await openPanel(listOf(aTPU()));
  changes.flow(false);
  await shows(node, 'Live updates do not arrive.');
  changes.flow(true);
  await hides(node, 'Live updates do not arrive.');
});

it.each([
  [VERSION, '', ''],
  ['999.0.0', 'reload the page', 'Reload'],
  ['0.0.1', 'Restart the Jupyter server', '']
])('with a server of version %s: %s', async (version, hint, label) => {
  const { node } = await openPanel({
    ...listOf(aTPU()),
    'GET status': [200, aStatus({ version })]
  });
  await shows(node, 'my-tpu', hint);
  expect(node.textContent!.includes('This page is from')).toBe(!!hint);
  expect(!!label && !!button(node, label)).toBe(!!label);
});

it('what a copy finds at once is said in its dialog, which keeps its input', async () => {
  const problem = aProblem('/data/x does not exist.', 'NOT_FOUND');
  const { changes, done, node } = await openAction('copy', aTPU(), {
    [`POST ${TPU}/copies`]: [202, anOperation({ kind: 'copy' })]
  });
  const [source] = await dialogInputs(2);
  type(source, '/data/x');
  const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
  button(dialog, 'Copy').click();
  await shows(node, 'Copying');
  changes.operation(anOperation({ kind: 'copy', state: 'failed', problem }));
  await shows(dialog, '/data/x does not exist.');
  expect(source.value).toBe('/data/x');
  await answerDialog('Cancel');
  await done;
  expect(node.textContent).not.toContain('/data/x does not exist.');
});

it('lists are sorted by what the user chooses, and the other way round', async () => {
  const hosts = someHosts(3).map((host, index) => ({
    ...host,
    internal_address: `10.0.0.${[7, 30, 4][index]}`
  }));
  const { node } = await openPage(connectedTPU({ hosts }));
  await shows(node, 'Address');
  const order = () =>
    [...node.querySelectorAll('.jp-tpu-Row-main')]
      .map(row => /10\.0\.0\.(\d+)/.exec(row.textContent ?? '')?.[1])
      .filter(Boolean)
      .join(' ');
  expect(order()).toBe('7 30 4');
  for (const expected of ['4 7 30', '30 7 4', '7 30 4']) {
    button(node, 'Address').click();
    await expect.poll(order).toBe(expected);
  }
});

it('titles name what was done', () => {
  const request = { sources: ['a'], download: false };
  const result = { request, copies: [{ files: 3 }] } as unknown as ICopyResult;
  const copy = anOperation({
    kind: 'copy',
    state: 'done',
    result: result as never
  });
  expect(operationTitle(copy)).toBe('Copied 3 files to my-tpu');
});

it.each<[string, Partial<ITPU>, RegExp]>([
  [
    'by its guard',
    {
      state: 'STOPPED',
      guard_stop: {
        time: '2026-10-14T10:00:00Z',
        reason: 'idle',
        certain: true
      }
    },
    /^Its guard.*idle/
  ],
  ['by somebody', { state: 'STOPPED', guard_stop: null }, /^Not known/],
  ['by Google', { state: 'PREEMPTED', tier: 'spot' }, /^Google.*Spot/]
])('says who ended a TPU, and why: %s', (_, more, expected) => {
  const ending = endingOf(aTPU(more), [])!;
  expect(`${ending.who} ${ending.why}`).toMatch(expected);
});

it('says when a TPU was ended, or when that was seen', () => {
  const ended = '2026-10-14T10:05:00Z';
  const noticed = '2026-10-14T10:00:00Z';
  const gone = { state: 'PREEMPTED', ended } as const;
  expect(endingOf(aTPU(gone), [])).toMatchObject({ when: ended, seen: true });
  const interruption = {
    kind: 'preemption' as const,
    hosts: [0],
    noticed,
    checkpoints: []
  };
  expect(endingOf(aTPU({ ...gone, interruption }), [])).toMatchObject({
    when: noticed,
    seen: false
  });
  const stopped = { state: 'STOPPED', ended } as const;
  expect(endingOf(aTPU(stopped), [])).toMatchObject({ when: ended });
});

it('paths are relative to what Jupyter shows, and full ones stay', () => {
  expect(serverPath('data/x')).toBe('~/data/x');
  expect(serverPath('.')).toBe('~');
  PageConfig.setOption('serverRoot', '/srv/lab/');
  expect(serverPath('data/x')).toBe('/srv/lab/data/x');
  expect(serverPath('')).toBe('/srv/lab');
  PageConfig.setOption('serverRoot', '');
  for (const path of ['/data', '~/data', 'C:\\data']) {
    expect(serverPath(path)).toBe(path);
  }
});

it('has one format for times: the day only where that is not today', () => {
  const now = new Date('2026-10-14T12:00:00');
  expect(clock('2026-10-14T09:05:00', now)).toMatch(/^0?9:05/);
  expect(clock('2026-10-12T09:05:00', now)).toMatch(/Oct 12/);
  expect(clock('2025-10-12T09:05:00', now)).toMatch(/2025/);
});

// Memory and load of chips: asked for while they are shown, as a plot per host and in words.

import { expect, it, vi } from 'vitest';

import { EVERY } from '../model/loads';
import { IChipLoad, IHostLoad, ILoadSample, ITPU, ITPULoad } from '../rest/api';
import { button, IOpened, openPage, openPanel, shows, widgets } from './opened';
import { aProblem, aTPU, listOf, someHosts } from './server';

const METRICS = 'GET tpus/us-central1-a~my-tpu/metrics';
const GIB = 2 ** 30;

function aChip(duty: number | null, used: number): IChipLoad {
  return { duty_cycle: duty, memory_used: used * GIB, memory_total: 16 * GIB };
}

function aSample(time: number, ...chips: IChipLoad[]): ILoadSample {
  return { time, state: 'ok', chips, queue: null };
}

function aHost(host: number, more: Partial<IHostLoad> = {}): IHostLoad {
  return {
    host,
    chips: 2,
    samples: [],
    bookings: [],
    message: '',
    errors: [],
    problem: null,
    ...more
  };
}

function aLoad(...hosts: IHostLoad[]): ITPULoad {
  return {
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    type: 'v5litepod-8',
    emulated: false,
    hosts,
    next: 7
  };
}

function open(...answers: ITPULoad[]): Promise<IOpened> {
  const tpu: ITPU = aTPU({ connection: 'connected' });
  const answer = () => (answers.length > 1 ? answers.shift() : answers[0]);
  return openPage(tpu, { [METRICS]: () => [200, answer()] });
}

it('draws what it gets, and adds what comes later', async () => {
  const first = aHost(0, {
    samples: [aSample(10, aChip(40, 2), aChip(20, 4))]
  });
  const then = aHost(0, {
    samples: [aSample(12, aChip(90, 4), aChip(null, 4))]
  });
  const { node, server } = await open(
    aLoad(first),
    aLoad(then),
    aLoad(aHost(0))
  );
  await shows(node, '30 % · 6.0 of 32.0 GiB', 'Chip 1', '4.0 GiB');
  const drawn = () =>
    [...node.querySelectorAll('.jp-tpu-Plot path')].map(path =>
      path.getAttribute('d')
    );
  await vi.waitFor(
    () => expect(drawn()).toEqual(['M0 70L100 10', 'M0 81.25L100 75']),
    3 * EVERY
  );
  const asked = server.calls.filter(one => one.path.endsWith('/metrics'));
  expect(asked.slice(0, 2).map(one => one.query.split('&')[0])).toEqual([
    'from=0',
    'from=7'
  ]);
});

it('asks while the page or the list can be seen, and colours the map', async () => {
  vi.useFakeTimers();
  const tpu = aTPU({ connection: 'connected', hosts: someHosts(1) });
  const sample = aSample(10, aChip(50, 8), aChip(0, 0));
  const { actions, node, server } = await openPanel({
    ...listOf(tpu),
    [METRICS]: [200, aLoad(aHost(0, { samples: [sample] }))]
  });
  const [panel] = widgets;
  panel.hide();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(server.count(METRICS)).toBe(0);
  await actions.open.tpu(tpu);
  await vi.advanceTimersByTimeAsync(5 * EVERY);
  expect(server.count(METRICS)).toBeGreaterThan(3);
  const chips = [...node.querySelectorAll<SVGElement>('.jp-tpu-Map-chip')];
  expect(chips).toHaveLength(8);
  expect(chips[0].textContent).toContain('50 % · 8.0 of 16.0 GiB');
  expect(Number(chips[0].style.fillOpacity)).toBeCloseTo(0.54);
  button(node, 'HBM').click();
  await vi.advanceTimersByTimeAsync(100);
  expect(chips[1].style.fillOpacity).toBe('0.08');
  const page = widgets[1];
  page.hide();
  await vi.advanceTimersByTimeAsync(EVERY);
  const before = server.count(METRICS);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(server.count(METRICS)).toBe(before);
});

it('says of each host why there are no figures', async () => {
  const idle = 'No process uses the chips.';
  const problem = aProblem('The link is down.', 'UNREACHABLE', 'Reconnecting.');
  const { node } = await open(
    aLoad(
      aHost(0, {
        samples: [{ time: 1, state: 'idle', chips: [], queue: null }],
        message: idle
      }),
      aHost(1, { problem }),
      aHost(2, {
        samples: [{ ...aSample(1, aChip(5, 1)), queue: 3 }],
        bookings: [
          { chips: [0, 1], kernel: 'k', notebook: 'a/train.ipynb' },
          { chips: [2], kernel: '1b671a64-40d5', notebook: '' }
        ],
        errors: ['core halted']
      })
    )
  );
  await shows(
    node,
    idle,
    'The link is down. Reconnecting.',
    'Host 2',
    'chips 0-1: train.ipynb',
    'chip 2: 1b671a64',
    '5 % · 1.0 of 16.0 GiB · 3 waiting',
    'libtpu reports an error: core halted'
  );
});

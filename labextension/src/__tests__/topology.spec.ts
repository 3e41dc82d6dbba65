import { expect, it } from 'vitest';

import { hostBlock, layoutOf } from '../tpuPage/topology';

it.each([
  ['2x4', 8, [2, 4]],
  ['4x4', 4, [2, 2]],
  ['4x4x8', 4, [2, 2, 1]],
  ['2x2x1', 4, [2, 2, 1]],
  ['1x1', 1, [1, 1]],
  ['3x3', 4, null]
])(
  'a host of a %s with %s chips has the block %s',
  (topology, chips, block) => {
    expect(hostBlock(topology.split('x').map(Number), chips)).toEqual(block);
  }
);

it.each([
  ['4x4', 4, 4],
  ['16x16', 64, 4],
  ['4x4x4', 16, 4],
  ['4x8x8', 64, 4],
  ['2x4', 1, 8],
  ['', 3, 8],
  ['5x7', 2, 4],
  ['nonsense', 2, 1]
])('each chip of a %s has a place of its own', (topology, hosts, chips) => {
  const { blocks, height, layers, width } = layoutOf(topology, hosts, chips);
  const places = blocks.flatMap(block => block.chips);
  expect(places).toHaveLength(hosts * chips);
  expect(new Set(places.map(one => Object.values(one).join())).size).toBe(
    hosts * chips
  );
  for (const { layer, x, y } of places) {
    expect(x >= 0 && x < width && y >= 0 && y < height).toBe(true);
    expect(layer >= 0 && layer < layers).toBe(true);
  }
});

it('hosts of a pod are neighbors, row by row', () => {
  const { blocks } = layoutOf('4x4', 4, 4);
  expect(blocks.map(({ chips: [{ x, y }] }) => [x, y])).toEqual([
    [0, 0],
    [2, 0],
    [0, 2],
    [2, 2]
  ]);
});

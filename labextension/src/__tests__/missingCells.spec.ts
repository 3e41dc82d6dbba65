import { expect, it } from 'vitest';

import { missingText } from '../kernels/runningCells';

it('says how much a cell has printed that is not in its notebook', () => {
  const one = { id: 'r', cell: 'c', count: 3, code: 'for i in x:\n  print(i)' };
  const said = (...lines: (number | undefined)[]) =>
    missingText(lines.map(count => ({ ...one, lines: count })));
  expect(said(120)).toBe(
    'A cell that is not in this notebook printed 120 lines. Its code: for i in x:'
  );
  expect(said(1)).toContain('printed 1 line. ');
  expect(said(60, undefined, 60)).toBe(
    '3 cells that are not in this notebook printed 120 lines. The first one: for i in x:'
  );
  expect(said(0)).toBe(
    'A cell that is not in this notebook was run: for i in x:'
  );
  expect(said(undefined, 0)).toBe(
    '2 cells that are not in this notebook were run. The first one: for i in x:'
  );
});

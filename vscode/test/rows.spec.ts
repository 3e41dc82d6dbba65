// The rows of the view stay while what they show changes.

import { describe, expect, it } from 'vitest';

import { INode } from '../src/nodes';
import { updated } from '../src/rows';

function node(id: string, more: Partial<INode> = {}): INode {
  return { id, label: id, icon: 'x', context: ';', ...more };
}

describe('updated', () => {
  const { rows } = updated(
    [],
    [node('a', { children: [node('a1'), node('a2')] }), node('b')]
  );
  const [a, b] = rows;

  it('keeps each row, and draws again only what is seen to have changed', () => {
    const tpu = { name: 'new' } as INode['tpu'];
    const [first, second] = a.children;
    const { changed, rows: after } = updated(rows, [
      node('a', { children: [node('a1', { label: 'other' }), node('a2')] }),
      node('b', { tpu })
    ]);
    expect(after).toEqual([a, b]);
    expect(changed).toEqual([first]);
    expect([first.node.label, second.node.label]).toEqual(['other', 'a2']);
    expect(b.node.tpu).toBe(tpu); // a command gets the present one
  });

  it('draws a row again whose children are others, and keeps those that stay', () => {
    const [, second] = a.children;
    const { changed } = updated(rows, [
      node('a', { children: [node('a2'), node('a3')] }),
      node('b')
    ]);
    expect(changed).toEqual([a]);
    expect(a.children[0]).toBe(second);
    expect(a.children[1].node.id).toBe('a3');
  });

  it('draws the list again when it has other rows, which keeps those that stay', () => {
    const { changed, rows: after } = updated(rows, [node('c'), node('b')]);
    expect(changed).toBeNull();
    expect(after[1]).toBe(b);
    expect(updated(after, [node('b'), node('c')]).changed).toBeNull();
  });
});

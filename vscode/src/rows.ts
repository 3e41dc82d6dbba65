// The rows of the view. A row stays the same object while what it shows changes: VS Code forgets the
// rows that it asks for again, and a command of a menu that is open then would not know its row.

import { INode } from './nodes';

export class Row {
  constructor(private _node: INode) {
    this._children = rowsOf(_node.children);
  }

  get node(): INode {
    return this._node;
  }

  get children(): readonly Row[] {
    return this._children;
  }

  /** Shows *node* now, of the same id. Returns the rows that are to be drawn again. */
  update(node: INode): readonly Row[] {
    const before = drawn(this._node);
    this._node = node;
    const { rows, changed } = updated(this._children, node.children);
    this._children = rows;
    return changed && before === drawn(node) ? changed : [this];
  }

  private _children: readonly Row[];
}

function rowsOf(nodes: readonly INode[] = []): Row[] {
  return nodes.map(node => new Row(node));
}

/**
 * The rows of *nodes*, in their order.
 *
 * changed: those that are to be drawn again; null if it is another list.
 */
export function updated(
  before: readonly Row[],
  nodes: readonly INode[] = []
): { rows: readonly Row[]; changed: readonly Row[] | null } {
  const known = new Map(before.map(row => [row.node.id, row]));
  const changed: Row[] = [];
  const rows = nodes.map(node => {
    const row = known.get(node.id);
    changed.push(...(row?.update(node) ?? []));
    return row ?? new Row(node);
  });
  const isSame =
    rows.length === before.length &&
    rows.every((row, index) => row === before[index]);
  return { rows, changed: isSame ? changed : null };
}

/** All that is seen of a node itself. */
function drawn({ children, ...node }: INode): string {
  const { context, description, icon, label, open, tone, tooltip } = node;
  const hasChildren = !!children?.length;
  return JSON.stringify([
    [label, description, tooltip, icon, tone],
    [context, open, node.command, hasChildren]
  ]);
}

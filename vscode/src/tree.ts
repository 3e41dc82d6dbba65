// The view with TPUs.

import * as vscode from 'vscode';

import { Tone } from '../../labextension/src/language/translation';
import { ITPU } from '../../labextension/src/rest/api';
import { keyOf } from '../../labextension/src/rest/tpuRef';
import { INode, remedyNodes, rootNodes } from './nodes';
import { Row, updated } from './rows';
import { Session } from './session';

const COLORS: { [tone in Tone]?: string } = {
  good: 'testing.iconPassed',
  moving: 'charts.yellow',
  bad: 'list.errorForeground'
};

/** Under what the nodes that were opened or closed are kept, and how many. */
const OPENED = 'jupyterTpu.opened';
const MOST_KEPT = 200;

export class Tree implements vscode.TreeDataProvider<Row> {
  /** *_kept*: where a window keeps what is open, over a reload. */
  constructor(
    private _session: Session,
    private _kept: vscode.Memento
  ) {
    this._opened = _kept.get<Record<string, boolean>>(OPENED, {});
    _session.stateChanged.connect(() => this._update());
    this._update();
  }

  get onDidChangeTreeData(): vscode.Event<Row[] | undefined> {
    return this._changed.event;
  }

  getChildren(row?: Row): Row[] {
    if (!row) {
      return [...this._rows];
    }
    const { host, id, tpu } = row.node;
    if (tpu && host === undefined && id === keyOf(tpu)) {
      void this._loadKernels(tpu);
    }
    return [...row.children];
  }

  getTreeItem({ node }: Row): vscode.TreeItem {
    const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;
    const isOpen = this._opened[node.id] ?? node.open;
    const item = new vscode.TreeItem(
      node.label,
      node.children?.length ? (isOpen ? Expanded : Collapsed) : None
    );
    const color = node.tone && COLORS[node.tone];
    item.id = node.id;
    item.description = node.description;
    item.tooltip = node.tooltip || undefined;
    item.iconPath = new vscode.ThemeIcon(
      node.icon,
      color ? new vscode.ThemeColor(color) : undefined
    );
    item.contextValue = node.context;
    if (node.command) {
      const command = `jupyterTpu.${node.command}`;
      item.command = { command, title: node.label };
    }
    // Otherwise a screen reader says only what the tooltip has.
    item.accessibilityInformation = {
      label: [node.label, node.description, node.tooltip]
        .filter(Boolean)
        .join(', ')
    };
    return item;
  }

  /** The user has opened or closed a node. */
  async keep({ node: { id } }: Row, isOpen: boolean): Promise<void> {
    this._opened = { ...this._opened, [id]: isOpen };
    const kept = Object.entries(this._opened).slice(-MOST_KEPT);
    await this._kept.update(OPENED, Object.fromEntries(kept));
  }

  /** Shows what there is now. */
  private _update(): void {
    const { changed, rows } = updated(this._rows, this._nodes());
    this._rows = rows;
    if (!changed) {
      this._changed.fire(undefined);
    } else if (changed.length) {
      this._changed.fire([...changed]);
    }
  }

  private _nodes(): INode[] {
    const connection = this._session.connection;
    if (!connection) {
      // Where there are none, the welcome page says what to do.
      return remedyNodes(this._session.state);
    }
    const { resources, sync } = connection;
    const { problem } = sync;
    return rootNodes(resources, problem && 'scope' in problem ? problem : null);
  }

  /** Once: after that events keep them up to date. */
  private async _loadKernels(tpu: ITPU): Promise<void> {
    const connection = this._session.connection;
    if (!connection || tpu.state !== 'READY') {
      return;
    }
    const key = `${tpu.id} ${tpu.kernels}`;
    if (this._loaded.get(keyOf(tpu)) === key) {
      return;
    }
    this._loaded.set(keyOf(tpu), key);
    try {
      const kernels = await connection.client.kernels.list(tpu);
      connection.resources.setKernels(tpu, kernels);
      this._update();
    } catch {
      this._loaded.delete(keyOf(tpu)); // its host’s node says why it can’t be reached
    }
  }

  private _opened: Record<string, boolean>;
  private _changed = new vscode.EventEmitter<Row[] | undefined>();
  private _rows: readonly Row[] = [];
  /** How many kernels a TPU had when they were listed. */
  private _loaded = new Map<string, string>();
}

// The rows of a list: each a name, a state, buttons and more, which the user can sort.

import {
  caretDownIcon,
  caretUpIcon,
  closeIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import { PanelState } from '../panel/panelState';
import { IconButton } from './elements';
import { StateLabel } from './stateLabel';
import { Tone, trans } from './translation';

interface IRow {
  name: React.ReactNode;
  /** What the name's tooltip says; by default the name. */
  title?: string;
  /** Beside the name; nothing where its label is empty. */
  state?: { label: string; tone: Tone; title?: string };
  buttons?: React.ReactNode;
  /** The last button. */
  remove?: { label: string; disabled?: boolean; run: () => unknown };
  /** Below. */
  more?: React.ReactNode;
}

/** One row. */
export function Row(props: IRow & { children?: React.ReactNode }) {
  const { buttons, children, more, name, remove, state } = props;
  const title = props.title ?? (typeof name === 'string' ? name : undefined);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={title}>
        {name}
      </span>
      {state?.label && (
        <StateLabel tone={state.tone} title={state.title}>
          {state.label}
        </StateLabel>
      )}
      {(buttons || remove) && (
        <span className="jp-tpu-Row-buttons">
          {buttons}
          {remove && (
            <IconButton
              icon={closeIcon}
              label={remove.label}
              disabled={remove.disabled}
              onClick={() => void remove.run()}
            />
          )}
        </span>
      )}
      {more && <span className="jp-tpu-Row-more">{more}</span>}
      {children}
    </li>
  );
}

/** What a list can be sorted by: its name, and the value of an item. */
export type Sorts<T> = readonly (readonly [
  id: string,
  label: string,
  value: (item: T) => string | number
])[];

/** So many are seen at a glance; more can be sorted. */
const SORTABLE_FROM = 3;

/** A list that can be sorted. *id*: where the view keeps by what, for the lists of all TPUs. */
export function SortableList<T>(props: {
  id: string;
  view: PanelState;
  items: readonly T[];
  sorts: Sorts<T>;
  label?: string;
  children: (item: T) => JSX.Element;
}) {
  const { children, id, items, label, sorts, view } = props;
  const sort = view.sortOf(id);
  const value = sorts.find(([one]) => one === sort?.by)?.[2];
  const sorted = value ? [...items].sort(comparing(value)) : items;
  return (
    <>
      {items.length >= SORTABLE_FROM && (
        <div
          className="jp-tpu-Sorts"
          role="group"
          aria-label={trans.__('Sort by')}
        >
          <span aria-hidden="true">{trans.__('Sort by')}</span>
          {sorts.map(([one, name]) => {
            const Caret = sort?.down ? caretDownIcon : caretUpIcon;
            const on = sort?.by === one;
            return (
              <button
                key={one}
                type="button"
                className="jp-tpu-Link"
                aria-pressed={on}
                title={
                  on && sort.down
                    ? trans.__('Sorted, the last first')
                    : undefined
                }
                onClick={() => view.sortBy(id, one)}
              >
                {name}
                {on && <Caret.react tag="span" elementSize="small" />}
              </button>
            );
          })}
        </div>
      )}
      <ul aria-label={label}>
        {(sort?.down && value ? [...sorted].reverse() : sorted).map(children)}
      </ul>
    </>
  );
}

function comparing<T>(value: (item: T) => string | number) {
  return (one: T, other: T) => {
    const [a, b] = [value(one), value(other)];
    return typeof a === 'number' && typeof b === 'number'
      ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  };
}

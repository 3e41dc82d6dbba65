// Parts of a TPU's page, which can be folded: with a list that can be sorted, or with terms and what
// they are. The view keeps what is folded, sorted and shown, for all TPUs.

import { addIcon, caretDownIcon, caretUpIcon } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

import { trans } from '../language/translation';
import { Disclosure, IconButton, Link } from './elements';
import { useView } from './useView';

/** A part with a heading that folds it. */
export function Section(props: {
  /** Where the view keeps whether it is folded. */
  id: string;
  title: string;
  /** Beside the title: how many there are, or a button. */
  aside?: React.ReactNode;
  /** What to say in its only line where there is nothing. */
  none?: string | false;
  children: React.ReactNode;
}) {
  const { aside, children, id, none, title } = props;
  const view = useView();
  const content = useId();
  const folded = `${id}#folded`;
  const open = !none && !view.isOpen(folded);
  return (
    <section
      className={`jp-tpu-Section ${none ? 'jp-mod-none' : ''}`}
      aria-label={title}
    >
      <div className="jp-tpu-Section-head">
        <h3>
          {none ? (
            title
          ) : (
            <Disclosure
              open={open}
              controls={content}
              onToggle={() => view.toggle(folded)}
            >
              {title}
            </Disclosure>
          )}
        </h3>
        {none && (
          <span className="jp-tpu-Section-none" title={none}>
            {none}
          </span>
        )}
        {aside}
      </div>
      {open && (
        <div id={content} className="jp-tpu-Section-content">
          {children}
        </div>
      )}
    </section>
  );
}

/** So many hosts are shown until the user asks for all. */
export const HOSTS_SHOWN = 8;

/**
 * The first of *items* until the user asks for all, and the link for that; no link for a single one more.
 *
 * @param id where the view keeps whether all are shown
 * @param label what the link is called where its text does not say enough
 */
export function useSome<T>(
  id: string,
  items: readonly T[],
  limit = Infinity,
  label?: string
): [some: readonly T[], more: JSX.Element | false] {
  const view = useView();
  const all = `${id}#all`;
  const open = view.isOpen(all);
  const many = items.length > limit + 1;
  return [
    many && !open ? items.slice(0, limit) : items,
    many && (
      <Link label={label} onClick={() => view.toggle(all)}>
        {open ? trans.__('Show fewer') : trans.__('Show all %1', items.length)}
      </Link>
    )
  ];
}

/** What a list can be sorted by: its name, and the value of an item. */
type Sorts<T> = readonly (readonly [
  id: string,
  label: string,
  value: (item: T) => string | number
])[];

/** So many are seen at a glance; more can be sorted. */
const SORTABLE_FROM = 3;

/** A part with a list that can be sorted. */
export function ListSection<T>(props: {
  id: string;
  title: string;
  /** What the list is called, where the title does not say enough. */
  label?: string;
  items: readonly T[];
  /** So many are shown until the user asks for all. */
  limit?: number;
  /** What to say in its only line where there is nothing. */
  none?: string | false;
  sorts: Sorts<T>;
  row: (item: T) => JSX.Element;
  /** The button that adds one. */
  add?: { label: string; disabled: boolean; run: () => unknown };
  /** Beside the title, instead of a button. */
  aside?: React.ReactNode;
  /** Above and below the list. */
  above?: React.ReactNode;
  children?: React.ReactNode;
}) {
  const { above, add, children, id, items, label, none, sorts, title } = props;
  const sort = useView().sortOf(id);
  const value = sorts.find(([one]) => one === sort?.by)?.[2];
  const sorted = value ? [...items].sort(comparing(value)) : items;
  const [some, more] = useSome(
    id,
    sort?.down && value ? [...sorted].reverse() : sorted,
    props.limit
  );
  return (
    <Section
      id={id}
      title={title}
      none={items.length === 0 && none}
      aside={
        add ? (
          <IconButton
            icon={addIcon}
            label={add.label}
            disabled={add.disabled}
            onClick={() => void add.run()}
          />
        ) : (
          props.aside
        )
      }
    >
      {above}
      {items.length >= SORTABLE_FROM && <SortLinks id={id} sorts={sorts} />}
      <ul aria-label={label}>{some.map(props.row)}</ul>
      {more}
      {children}
    </Section>
  );
}

function SortLinks<T>({ id, sorts }: { id: string; sorts: Sorts<T> }) {
  const view = useView();
  const sort = view.sortOf(id);
  const Caret = sort?.down ? caretDownIcon : caretUpIcon;
  return (
    <div className="jp-tpu-Sorts" role="group" aria-label={trans.__('Sort by')}>
      <span aria-hidden="true">{trans.__('Sort by')}</span>
      {sorts.map(([one, name]) => {
        const on = sort?.by === one;
        return (
          <button
            key={one}
            type="button"
            className="jp-tpu-Link"
            aria-pressed={on}
            title={
              on && sort.down ? trans.__('Sorted, the last first') : undefined
            }
            onClick={() => view.sortBy(id, one)}
          >
            {name}
            {on && <Caret.react tag="span" elementSize="small" />}
          </button>
        );
      })}
    </div>
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

/** A term, what it is, and what its tooltip says; without a tooltip a long text is wrapped. */
export type Term = [
  term: React.ReactNode,
  what: React.ReactNode,
  title?: string
];

export function Terms(props: { terms: (Term | false | '')[] }) {
  const terms = props.terms.filter((one): one is Term => !!one);
  return (
    <dl>
      {terms.map(([term, what, title], index) => (
        <React.Fragment key={index}>
          <dt>{term}</dt>
          <dd className={title ? undefined : 'jp-mod-wrap'} title={title}>
            {what}
          </dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

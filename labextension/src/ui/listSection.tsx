// Parts of a TPU's page: one with a list, and one with terms and what they are.

import { addIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { useActions } from '../actions/useActions';
import { IconButton, Section } from './elements';
import { SortableList, Sorts } from './rows';

/** A part with a list that can be sorted. */
export function ListSection<T>(props: {
  /** Where the view keeps how it is sorted, and whether it is folded. */
  id: string;
  title: string;
  /** What the list is called, where the title does not say enough. */
  label?: string;
  items: readonly T[];
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
  const { above, add, aside, children, none, row, title, ...list } = props;
  const { view } = useActions();
  return (
    <Section
      id={list.id}
      view={view}
      title={title}
      none={list.items.length === 0 && none}
      aside={
        add ? (
          <IconButton
            icon={addIcon}
            label={add.label}
            disabled={add.disabled}
            onClick={() => void add.run()}
          />
        ) : (
          aside
        )
      }
    >
      {above}
      <SortableList view={view} {...list}>
        {row}
      </SortableList>
      {children}
    </Section>
  );
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

// What pages that list something have in common.

import React from 'react';

import { trans } from '../language/translation';
import { IProblem } from '../rest/api';
import { failureText } from '../rest/failureText';
import { Loaded } from '../state/loaded';
import { Alert, EmptyState, Link, TextButton } from './elements';
import { reportHalfTyped } from './field';
import { FieldList, FormFields } from './fields';
import { ListForm } from './listForm';
import { useStore } from './useStore';

/** What was loaded; or that it is loading, that there is none, or why it could not be loaded. */
export function Listed<T>(props: {
  list: Loaded<unknown>;
  items: readonly T[] | null;
  /** Why the list may not be complete. */
  problem?: IProblem | null;
  /** What to say until they are known. */
  loading: string;
  /** What to say of an empty list; without it, the children show that. */
  none?: string;
  children: (items: readonly T[]) => React.ReactNode;
}) {
  const { children, items, list, loading, none } = props;
  const failure = list.failure ?? props.problem;
  return (
    <>
      {failure && (
        <Alert {...failureText(failure)}>
          <TextButton disabled={list.loading} onClick={() => void list.load()}>
            {trans.__('Try Again')}
          </TextButton>
        </Alert>
      )}
      {!items ? (
        !failure && <EmptyState busy title={loading} />
      ) : items.length === 0 && none ? (
        <p role="status">{none}</p>
      ) : (
        children(items)
      )}
    </>
  );
}

/** Rows with a name for screen readers; with a count that name is a heading, too. */
export function Rows(props: {
  title: string;
  count?: number;
  children: React.ReactNode;
}) {
  const { children, count, title } = props;
  return (
    <section className="jp-tpu-Packages" aria-label={title}>
      {count !== undefined && (
        <h3>
          {title}
          <span className="jp-tpu-Details-count">{count}</span>
        </h3>
      )}
      <ul>{children}</ul>
    </section>
  );
}

/** A form of the panel that is sent unless a number or a date in it is half typed. */
export function PanelForm(props: {
  label: string;
  onSubmit: () => Promise<unknown>;
  children: React.ReactNode;
}) {
  const { children, label, onSubmit } = props;
  return (
    <form
      className="jp-tpu-Form"
      aria-label={label}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!reportHalfTyped(event.currentTarget)) {
          void onSubmit();
        }
      }}
    >
      {children}
    </form>
  );
}

/** A page that lists something, and adds to it. */
export function ListPage<F extends object, T>(props: {
  form: ListForm<F, T>;
  title: string;
  /** What it is for. */
  about: React.ReactNode;
  loading: string;
  none: string;
  row: (item: T) => JSX.Element;
  fields: FieldList<F>;
  /** The label of the button that adds. */
  add: string;
  /** Below the form. */
  children?: React.ReactNode;
}) {
  const { about, add, children, fields, loading, none, row, title } = props;
  const form = useStore(props.form);
  return (
    <PanelForm label={title} onSubmit={() => form.submit()}>
      {about}
      <Listed
        list={form.list}
        items={form.list.value}
        loading={loading}
        none={none}
      >
        {items => <Rows title={title}>{items.map(row)}</Rows>}
      </Listed>
      <FormFields form={form} fields={fields} />
      {form.failure && <Alert {...failureText(form.failure)} />}
      <div className="jp-tpu-Buttons">
        <TextButton
          main
          type="submit"
          disabled={form.submitting || !form.complete}
        >
          {add}
        </TextButton>
      </div>
      {children}
    </PanelForm>
  );
}

/** What the hosts are asked for when the user wants it: a list, once it is known. */
export function LookedUp<T>(props: {
  title: string;
  lookup: Loaded<unknown>;
  /** What is known; null or undefined before that. */
  items: readonly T[] | null | undefined;
  problems: readonly string[] | undefined;
  none: string;
  /** What the link says before and after, to a screen reader, and while the hosts are asked. */
  ask: { first: string; again: string; label: string; busy: string };
  children: (item: T) => JSX.Element;
}) {
  const { ask, children, items, none, problems = [] } = props;
  const lookup = useStore(props.lookup);
  return (
    <>
      {items && <h4>{props.title}</h4>}
      {lookup.failure && <Alert {...failureText(lookup.failure)} />}
      {problems.map(problem => (
        <Alert key={problem} message={problem} />
      ))}
      {items && <ul>{items.map(children)}</ul>}
      {items?.length === 0 && problems.length === 0 && <p>{none}</p>}
      {lookup.loading ? (
        <span role="status">{ask.busy}</span>
      ) : (
        <Link label={ask.label} onClick={() => void lookup.load()}>
          {items ? ask.again : ask.first}
        </Link>
      )}
    </>
  );
}

// What pages that list something have in common.

import { Button } from '@jupyterlab/ui-components';
import React from 'react';

import { IProblem } from '../rest/api';
import { Failure } from '../rest/failure';
import { Alert, EmptyState } from './elements';
import { failureText } from './failures';
import { trans } from './translation';

/** What was loaded; or that it is loading, that there is none, or why it could not be loaded. */
export function Listed<T>(props: {
  /** null until they are known. They stay when loading them again fails. */
  items: readonly T[] | null;
  failure: Failure | IProblem | null;
  /** Whether it can't be loaded again now. */
  busy?: boolean;
  /** What to say until they are known. */
  loading: string;
  /** What to say of an empty list; without it, the children show that. */
  none?: string;
  onRetry: () => Promise<void>;
  children: (items: readonly T[]) => React.ReactNode;
}): JSX.Element {
  const { busy, children, failure, items, loading, none, onRetry } = props;
  return (
    <>
      {failure && (
        <Alert {...failureText(failure)}>
          <Button
            className="jp-tpu-Button"
            type="button"
            disabled={busy}
            onClick={() => void onRetry()}
          >
            {trans.__('Try Again')}
          </Button>
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
}): JSX.Element {
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

// What an operation did with the variables of kernels, in its details.

import { PathExt } from '@jupyterlab/coreutils';
import React from 'react';

import { Paths } from '../files/resultView';
import { trans } from '../language/translation';
import {
  IMissingVariable,
  IOperation,
  ISessionOutcome,
  ISessionResult
} from '../rest/api';
import { outcomeText } from './sessionLabels';

const KINDS: IOperation['kind'][] = [
  'delete',
  'hunt',
  'restart',
  'restore',
  'save',
  'stop'
];

/** One for each kernel; none for operations that save and restore nothing. */
export function outcomesOf({ kind, result }: IOperation): ISessionOutcome[] {
  const { kernels } = (result ?? {}) as unknown as Partial<ISessionResult>;
  return KINDS.includes(kind) ? (kernels ?? []) : [];
}

export function SessionOutcomes({ operation }: { operation: IOperation }) {
  return (
    <>
      {outcomesOf(operation).map(outcome => (
        <div key={outcome.kernel}>
          <p>
            {trans.__(
              '%1: %2',
              PathExt.basename(outcome.notebook) || outcome.kernel,
              outcomeText(outcome)
            )}
          </p>
          <MissingVariables
            missing={outcome.missing}
            missing_count={outcome.missing_count}
            title={trans.__('Not kept')}
          />
        </div>
      ))}
    </>
  );
}

/** Variables that are not kept, each with its reason; nothing where all are. */
export function MissingVariables(props: {
  missing: readonly IMissingVariable[];
  missing_count: number;
  title?: string;
}) {
  const { missing, missing_count: count, title } = props;
  return (
    <Paths
      title={title}
      paths={missing.map(({ name, why }) => ({ path: name, note: why }))}
      more={count - missing.length}
    />
  );
}

// How a sync went: its summary, files in conflict with a decision, and what was left out.

import { Button } from '@jupyterlab/ui-components';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { Actions } from '../actions/actions';
import { INotCopied, IOperation, ISyncConflict, ISyncResult } from '../api';
import { ago } from '../labels/translation';
import { keyOf } from '../model/resources';
import { Alert } from './elements';

/** The result of a sync so far; null for other operations. */
export function syncResult(operation: IOperation): ISyncResult | null {
  return operation.kind === 'sync'
    ? (operation.result as unknown as ISyncResult | null)
    : null;
}

/** What is always shown of a sync. */
export function SyncSummary(props: {
  operation: IOperation;
  result: ISyncResult;
  actions: Actions;
}): JSX.Element {
  const { operation, result, actions } = props;
  const { model, trans } = actions;
  const { conflicts, counts } = result;
  const tpu = model.tpu(keyOf({ name: operation.tpu, zone: operation.zone }));
  const decide = (pull: boolean) => () =>
    void actions.decideConflicts(tpu!, operation, result, pull);
  return (
    <>
      <div
        className="jp-tpu-Operation-step jp-tpu-Operation-summary"
        title={result.folder}
      >
        {foldersLabel(result)}: {operation.log.slice(-1)}
      </div>
      {conflicts.length > 0 && (
        <Alert
          message={trans._n(
            '%1 file was not copied: both sides have changed it.',
            '%1 files were not copied: both sides have changed them.',
            counts.conflicts
          )}
          kind="warning"
        >
          <ul className="jp-tpu-Paths">
            {conflicts.map(each => (
              <li key={each.path} title={each.path}>
                <code>{each.path}</code>
                <small>{conflictLabel(each, actions)}</small>
              </li>
            ))}
          </ul>
          {tpu && (
            <>
              <Button className="jp-tpu-Button" onClick={decide(false)}>
                {trans.__("Use This Computer's")}
              </Button>
              <Button className="jp-tpu-Button" onClick={decide(true)}>
                {trans.__("Use the TPU's")}
              </Button>
            </>
          )}
        </Alert>
      )}
    </>
  );
}

/** What is shown with the details of a sync. */
export function LeftOut(props: {
  files: INotCopied[];
  trans: TranslationBundle;
}): JSX.Element | null {
  const { files, trans } = props;
  if (files.length === 0) {
    return null;
  }
  return (
    <>
      <div>{trans.__('Left out')}</div>
      <ul className="jp-tpu-Paths">
        {files.map(each => (
          <li key={`${each.path}#${each.why}`} title={each.path}>
            <code>{each.path}</code>
            <small>
              {each.hosts.length > 0
                ? trans.__('%1 (host %2)', each.why, each.hosts.join(', '))
                : each.why}
            </small>
          </li>
        ))}
      </ul>
    </>
  );
}

/** "project → ~/project" */
function foldersLabel({ folder, remote, pull }: ISyncResult): string {
  const here = PathExt.basename(folder) || folder;
  return pull ? `${remote} → ${here}` : `${here} → ${remote}`;
}

/** "here 2 minutes ago · on the TPU: deleted" */
function conflictLabel(conflict: ISyncConflict, actions: Actions): string {
  const { language, trans } = actions;
  const time = (at: string) =>
    at ? ago(at, Date.now(), language) : trans.__('deleted');
  return trans.__(
    'here: %1 · on the TPU: %2',
    time(conflict.here),
    time(conflict.there)
  );
}

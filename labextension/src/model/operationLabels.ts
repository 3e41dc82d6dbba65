// What the panel says of operations and their steps.

import { IQuestion } from '../language/text';
import { trans } from '../language/translation';
import {
  ICopyResult,
  IOperation,
  IShareFolder,
  IStep,
  ISyncResult
} from '../rest/api';
import { kindTitles } from '../rest/operationKinds';

/** What an operation does or has done: "Connecting my-tpu". */
export function operationTitle(operation: IOperation): string {
  // A creation whose undo is refused is about the deletion.
  const kind = operation.undeleted ? 'delete' : operation.kind;
  const titles =
    kind === 'share' ? shareTitles(operation) : kindTitles(kind, operation.tpu);
  return doneTitle(operation) ?? titles[operation.state];
}

/** What a copy or a sync has done; null for others. */
function doneTitle({ kind, result, state, tpu }: IOperation): string | null {
  if (state !== 'done' || !result) {
    return null;
  }
  if (kind === 'copy') {
    const { copies, request } = result as unknown as ICopyResult;
    // Each host has the same files.
    const count = Math.max(0, ...copies.map(({ files }) => files));
    return request.download
      ? trans._n(
          'Copied %1 file from %2',
          'Copied %1 files from %2',
          count,
          tpu
        )
      : trans._n('Copied %1 file to %2', 'Copied %1 files to %2', count, tpu);
  }
  if (kind === 'sync') {
    const { counts } = result as unknown as ISyncResult;
    const changes = counts.written + counts.deleted;
    return changes === 0
      ? trans.__('Synced with %1: nothing has changed', tpu)
      : trans._n(
          'Synced %1 change with %2',
          'Synced %1 changes with %2',
          changes,
          tpu
        );
  }
  return null;
}

function shareTitles(
  operation: IOperation
): Record<IOperation['state'], string> {
  const { tpu: name } = operation;
  const { dry_run, remove } = (operation.result?.request ?? {}) as IShareFolder;
  if (remove && !dry_run) {
    return {
      running: trans.__('Stopping the sharing of a folder of %1', name),
      done: trans.__('A folder of %1 is no longer shared', name),
      cancelled: trans.__(
        'Stopping the sharing of a folder of %1 was cancelled',
        name
      ),
      failed: trans.__('Sharing a folder of %1 could not be stopped', name)
    };
  }
  if (dry_run) {
    return {
      ...kindTitles('share', name),
      running: trans.__('Checking the hosts of %1', name),
      done: trans.__('Checked the hosts of %1', name)
    };
  }
  return kindTitles('share', name);
}

/** What is asked before an operation is cancelled; null: nothing. */
export function cancelQuestion({ kind, tpu }: IOperation): IQuestion | null {
  switch (kind) {
    case 'create':
      return {
        title: trans.__('Stop creating %1?', tpu),
        text: trans.__('Everything created so far is deleted.'),
        accept: trans.__('Stop Creating')
      };
    case 'hunt':
      return {
        title: trans.__('Stop the hunt for %1?', tpu),
        text: trans.__('What it has begun is deleted.'),
        accept: trans.__('Stop Hunt')
      };
    default:
      return null;
  }
}

/** "Installing JAX · 2 of 4 hosts" */
export function stepLabel(step: IStep): string {
  if (step.hosts > 1 && step.state === 'running') {
    const hosts = trans.__('%1 of %2 hosts', step.hosts_done, step.hosts);
    return `${step.title} · ${hosts}`;
  }
  return step.title;
}

export function stepStateLabel(state: IStep['state']): string {
  return {
    done: trans.__('done'),
    failed: trans.__('failed'),
    running: trans.__('running'),
    skipped: trans.__('skipped'),
    waiting: trans.__('waiting')
  }[state];
}

/** The step that a running operation is at. */
export function currentStep(operation: IOperation): string {
  const step = operation.steps.find(one => one.state === 'running');
  // The message may say how far the step is.
  return step && !operation.message.startsWith(step.title)
    ? stepLabel(step)
    : operation.message;
}

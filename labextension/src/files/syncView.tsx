// How a sync went: its summary, files in conflict with a decision, and what was left out.

import { PathExt } from '@jupyterlab/coreutils';
import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { ago, Tone, trans } from '../language/translation';
import {
  IMirroredProject,
  IOperation,
  ISyncConflict,
  ISyncResult,
  ITPU
} from '../rest/api';
import { failureText } from '../rest/failureText';
import { Alert, StateLabel, TextButton } from '../ui/elements';
import { LeftOut, onHosts, Paths } from './resultView';

/** What is always shown of a sync. */
export function SyncSummary(props: {
  operation: IOperation;
  result: ISyncResult;
}) {
  const { operation, result } = props;
  const { model } = useActions();
  return (
    <>
      <div
        className="jp-tpu-Operation-step jp-tpu-Operation-summary"
        title={result.folder}
      >
        {foldersLabel(result)}: {operation.log.slice(-1)}
      </div>
      <Conflicts
        tpu={model.tpuOf(operation)}
        result={result}
        onDecided={() => model.dismiss(operation.id)}
      />
    </>
  );
}

/** The files in conflict, with a decision. */
function Conflicts(props: {
  tpu: ITPU | undefined;
  result: ISyncResult;
  onDecided?: () => void;
}) {
  const { tpu, result, onDecided } = props;
  const actions = useActions();
  const decide = async (pull: boolean) => {
    if (await actions.copies.decideConflicts(tpu!, result, pull)) {
      onDecided?.();
    }
  };
  if (result.conflicts.length === 0) {
    return null;
  }
  return (
    <Alert
      message={trans._n(
        '%1 file was not copied: both sides have changed it.',
        '%1 files were not copied: both sides have changed them.',
        result.counts.conflicts
      )}
      kind="warning"
    >
      <Paths
        paths={result.conflicts.map(conflict => ({
          path: conflict.path,
          note: conflictLabel(conflict, result)
        }))}
      />
      {tpu && (
        <>
          <TextButton onClick={() => void decide(false)}>
            {trans.__('Use This Computer’s')}
          </TextButton>
          <TextButton onClick={() => void decide(true)}>
            {trans.__('Use the TPU’s')}
          </TextButton>
        </>
      )}
    </Alert>
  );
}

/** The projects of the notebooks whose kernels run on a TPU. */
export function Projects({ tpu }: ITPUProps) {
  if (tpu.projects.length === 0) {
    return null;
  }
  return (
    <>
      <h4>{trans.__('Projects of Notebooks')}</h4>
      <ul>
        {tpu.projects.map(project => (
          <li
            key={`${project.host}#${project.folder}`}
            className="jp-tpu-Project"
          >
            <div className="jp-tpu-Project-head" title={project.folder}>
              <code>
                {PathExt.basename(project.folder)} → {project.remote}
              </code>
              <ProjectState project={project} tpu={tpu} />
            </div>
            {project.problem && <Alert {...failureText(project.problem)} />}
            {project.result && (
              <>
                {project.result.hosts
                  .filter(host => host.problem && host.host !== project.host)
                  .map(host => {
                    const { message, ...more } = failureText(host.problem!);
                    return (
                      <Alert
                        key={host.host}
                        message={trans.__('Host %1: %2', host.host, message)}
                        {...more}
                      />
                    );
                  })}
                <Conflicts tpu={tpu} result={project.result} />
                <LeftOut files={project.result.not_copied} />
              </>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

const PROJECT_TONES: { [state in IMirroredProject['state']]: Tone } = {
  copying: 'moving',
  current: 'good',
  failed: 'bad'
};

function ProjectState(props: { project: IMirroredProject; tpu: ITPU }) {
  const { project, tpu } = props;
  // What is in conflict is not copied.
  const conflicts = project.result?.conflicts ?? [];
  const state =
    project.state === 'current' &&
    conflicts.some(conflict => conflict.hosts.includes(project.host))
      ? 'failed'
      : project.state;
  const label = {
    copying: trans.__('Copying'),
    current: trans.__('Up to date'),
    failed: trans.__('Not up to date')
  }[state];
  return (
    <StateLabel tone={PROJECT_TONES[state]}>
      {onHosts(label, tpu.hosts.length > 1 ? [project.host] : [])}
    </StateLabel>
  );
}

/** "project → ~/project" */
function foldersLabel({ folder, remote, pull }: ISyncResult): string {
  const here = PathExt.basename(folder) || folder;
  return pull ? `${remote} → ${here}` : `${here} → ${remote}`;
}

/** "here: 2 minutes ago · on the TPU: deleted (host 3)" */
function conflictLabel(conflict: ISyncConflict, result: ISyncResult): string {
  const time = (at: string) => (at ? ago(at, Date.now()) : trans.__('deleted'));
  const label = trans.__(
    'here: %1 · on the TPU: %2',
    time(conflict.here),
    time(conflict.there)
  );
  const some = conflict.hosts.length < result.hosts.length;
  return onHosts(label, some ? conflict.hosts : []);
}

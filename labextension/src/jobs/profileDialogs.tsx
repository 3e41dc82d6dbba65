// Profiles of a TPU: traces, what was not traced, and what fills the memory of its devices.

import { PathExt } from '@jupyterlab/coreutils';
import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { portProblem, sizeLabel } from '../forwarding/portLabels';
import { hostNumbers } from '../language/hostRanges';
import { trans } from '../language/translation';
import { targetOf } from '../model/appTarget';
import { TPUModel } from '../model/model';
import {
  IKernel,
  IMemoryLine,
  IMemoryProfile,
  IProfile,
  IProfileTPU,
  ITPU
} from '../rest/api';
import { show } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import { notify } from '../ui/notify';
import { wait } from '../ui/wait';
import { hostsByProblem, untraced } from './profileLabels';

/** The tree is open where a line has at least this part of the memory. */
const LARGE = 0.2;

/** Traces a kernel, or all programs that use JAX on all hosts, and shows that. */
export async function trace(
  tpu: ITPU,
  { model, open }: IPanelActions,
  kernel?: IKernel
): Promise<void> {
  const request = await askProfile(tpu, kernel);
  const traced =
    request &&
    (await model.sendForApp(tpu, ({ profiles }) =>
      profiles.start(tpu, request)
    ));
  if (traced) {
    notifyUntraced(traced.operation.result as unknown as IProfile);
    await open.app(targetOf(traced.app));
  }
}

/** Asks how long to trace, and for programs that are not kernels; null if it was cancelled. */
async function askProfile(
  tpu: ITPU,
  kernel: IKernel | undefined
): Promise<IProfileTPU | null> {
  const values = await ask({
    title: trans.__('Trace %1', tpu.name),
    accept: trans.__('Trace'),
    initial: { seconds: '3', port: '' },
    fields: ({ port }) => [
      {
        name: 'seconds',
        label: trans.__('Seconds'),
        help: trans.__('A program is traced while it runs: start it first.'),
        kind: 'number',
        min: '0.1',
        max: '120',
        step: 'any',
        required: true
      },
      !kernel && {
        name: 'port',
        label: trans.__('Port of jobs (optional)'),
        help: trans.__(
          'Jobs are traced if they call jax.profiler.start_server with this number. Kernels need no port.'
        ),
        kind: 'port',
        problem: port && portProblem(port)
      }
    ]
  });
  return (
    values && {
      seconds: Number(values.seconds),
      kernels: kernel ? [kernel.id] : [],
      port: values.port ? Number(values.port) : null
    }
  );
}

/** Says which hosts are not in a trace, and why. */
function notifyUntraced(profile: IProfile): void {
  const lines = untraced(profile);
  if (lines.length > 0) {
    notify.warning(lines.join(' '));
  }
}

/** Asks all hosts, and shows what fills the memory of their devices. */
export async function showMemory(tpu: ITPU, model: TPUModel): Promise<void> {
  const profiles = await wait(
    trans.__('Checking the memory of %1', tpu.name),
    signal => model.client.profiles.memory(tpu, {}, signal)
  );
  if (!profiles) {
    return;
  }
  const several = tpu.hosts.length > 1;
  const kernels = profiles.profiles.filter(({ kernel }) => kernel);
  const others = profiles.profiles.filter(({ kernel }) => !kernel);
  await show(
    trans.__('Memory of %1', tpu.name),
    <>
      {profiles.emulated && (
        <p>{trans.__('Emulated: JAX on the CPU of this computer.')}</p>
      )}
      {kernels.map(profile => (
        <section key={profile.kernel}>
          <h4>{titleOf(profile, several)}</h4>
          <Memory profile={profile} />
        </section>
      ))}
      {hostsByProblem(others).map(([text, hosts]) => (
        <p key={text}>
          {several && <em>{hostNumbers(hosts)} </em>}
          {text}
        </p>
      ))}
    </>
  );
}

function titleOf(
  { host, kernel, notebook }: IMemoryProfile,
  several: boolean
): string {
  const name = notebook
    ? PathExt.basename(notebook)
    : trans.__('Kernel %1', kernel.slice(0, 8));
  return several ? trans.__('Host %1: %2', host, name) : name;
}

function Memory({ profile }: { profile: IMemoryProfile }) {
  if (profile.problem) {
    return (
      <p>
        {profile.problem.message} {profile.problem.hint}
      </p>
    );
  }
  if (profile.bytes === 0) {
    return <p>{trans.__('Nothing is in the memory of the devices.')}</p>;
  }
  const sums = Object.entries({ ...profile.devices, ...profile.others });
  return (
    <>
      <p>
        {sums
          .filter(([, size]) => size > 0)
          .map(([name, size]) => `${name} ${sizeLabel(size)}`)
          .join(' · ')}
      </p>
      <Lines lines={profile.lines} all={profile.bytes} />
    </>
  );
}

function Lines(props: { lines: IMemoryLine[]; all: number }): JSX.Element {
  const { all, lines } = props;
  return (
    <ul className="jp-tpu-Lines">
      {lines.map(line => {
        const row = (
          <>
            <span className="jp-tpu-Lines-size">{sizeLabel(line.bytes)}</span>
            <progress
              max={all}
              value={line.bytes}
              aria-label={trans.__(
                '%1 percent of the memory',
                Math.round((100 * line.bytes) / all)
              )}
            />
            <code title={line.file}>{line.line}</code> {line.function}
          </>
        );
        return (
          <li key={`${line.file} ${line.line} ${line.function}`}>
            {line.calls.length > 0 ? (
              <details open={line.bytes >= LARGE * all}>
                <summary>{row}</summary>
                <Lines lines={line.calls} all={all} />
              </details>
            ) : (
              <div>{row}</div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

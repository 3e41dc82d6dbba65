// Profiles of a TPU: what was not traced, and what fills the memory of its devices.

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { IMemoryLine, IMemoryProfile, IProfile, ITPU } from '../api';
import { sizeLabel } from '../labels/ports';
import { untraced } from '../labels/profiles';
import { TPUModel } from '../model/model';
import { wait } from './wait';

/** The tree is open where a line has at least this part of the memory. */
const LARGE = 0.2;

/** Says which hosts are not in a trace, and why. */
export function notifyUntraced(
  profile: IProfile,
  trans: TranslationBundle
): void {
  const lines = untraced(profile, trans);
  if (lines.length > 0) {
    Notification.warning(lines.join(' '), { autoClose: false });
  }
}

/** Asks all hosts, and shows what fills the memory of their devices. */
export async function showMemory(
  tpu: ITPU,
  model: TPUModel,
  trans: TranslationBundle
): Promise<void> {
  const found = await wait(
    trans.__('Looking at the memory of %1', tpu.name),
    signal => model.client.memory(tpu, signal),
    trans
  );
  if (!found) {
    return;
  }
  const many = found.profiles.length > 1;
  await showDialog({
    title: trans.__('Memory of %1', tpu.name),
    body: (
      <div className="jp-tpu-Dialog jp-tpu-Memory">
        {found.emulated && (
          <p>{trans.__('Emulated: JAX on the CPU of this computer.')}</p>
        )}
        {found.profiles.map(profile => (
          <section key={`${profile.host} ${profile.kernel}`}>
            {(many || profile.notebook) && (
              <h4>{titleOf(profile, tpu, trans)}</h4>
            )}
            <Memory profile={profile} trans={trans} />
          </section>
        ))}
      </div>
    ),
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

function titleOf(
  { host, kernel, notebook }: IMemoryProfile,
  tpu: ITPU,
  trans: TranslationBundle
): string {
  const name = notebook
    ? PathExt.basename(notebook)
    : kernel && trans.__('Kernel %1', kernel.slice(0, 8));
  const where = tpu.hosts.length > 1 ? trans.__('host %1', host) : '';
  return [name, where].filter(text => text).join(', ');
}

function Memory(props: {
  profile: IMemoryProfile;
  trans: TranslationBundle;
}): JSX.Element {
  const { profile, trans } = props;
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
      <Lines lines={profile.lines} all={profile.bytes} trans={trans} />
    </>
  );
}

function Lines(props: {
  lines: IMemoryLine[];
  all: number;
  trans: TranslationBundle;
}): JSX.Element {
  const { lines, all, trans } = props;
  return (
    <ul className="jp-tpu-Lines">
      {lines.map(each => {
        const row = (
          <>
            <span className="jp-tpu-Lines-size">{sizeLabel(each.bytes)}</span>
            <progress
              max={all}
              value={each.bytes}
              aria-label={trans.__(
                '%1 percent of the memory',
                Math.round((100 * each.bytes) / all)
              )}
            />
            <code title={each.file}>{each.line}</code> {each.function}
          </>
        );
        return (
          <li key={`${each.file} ${each.line} ${each.function}`}>
            {each.calls.length > 0 ? (
              <details open={each.bytes >= LARGE * all}>
                <summary>{row}</summary>
                <Lines lines={each.calls} all={all} trans={trans} />
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

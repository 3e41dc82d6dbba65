// Profiles in words.

import { TranslationBundle } from '@jupyterlab/translation';

import { IProfile } from '../api';

/** A sentence for each host without a trace, or with a program that could not be traced. */
export function untraced(
  { traces }: IProfile,
  trans: TranslationBundle
): string[] {
  const done = new Set(
    traces.filter(({ state }) => state === 'done').map(({ host }) => host)
  );
  const why = new Map<number, string>();
  for (const { host, state, problem } of traces) {
    if (problem && (state === 'failed' || !done.has(host))) {
      why.set(host, `${problem.message} ${problem.hint}`.trim());
    }
  }
  return [...why].map(([host, text]) =>
    trans.__('Host %1 was not traced: %2', host, text)
  );
}

// Commands on hosts, in words.

import { IHostRun, IRun } from '../rest/api';
import { hostNumbers } from '../ui/hostRanges';
import { trans } from '../ui/translation';

/** The command as it was typed. */
export function runTitle({ command }: IRun): string {
  const [program, option, script] = command;
  return program === 'sh' && option === '-c' ? script : command.join(' ');
}

/** A line for each way in which it goes or has ended, with its hosts where there are several. */
export function runOutcomes(run: IRun): string[] {
  const groups = new Map<string, number[]>();
  for (const host of run.hosts) {
    const text = outcome(host);
    groups.set(text, [...(groups.get(text) ?? []), host.host]);
  }
  return [...groups].map(([text, hosts]) =>
    run.hosts.length > 1 ? `${hostNumbers(hosts)} ${text}` : text
  );
}

function outcome(host: IHostRun): string {
  const problem = host.problem
    ? `${host.problem.message} ${host.problem.hint}`.trim()
    : '';
  switch (host.state) {
    case 'connecting':
      return trans.__('Connecting…');
    case 'running':
      return trans.__('Running…');
    case 'not-started':
      return trans.__('Not started: %1', problem);
    case 'unknown':
      return trans.__('Unknown: %1', problem);
    default:
  }
  if (host.cause === 'abandoned') {
    return trans.__('Stopped, because the connection was lost for too long');
  }
  if (host.cause === 'stopped') {
    return trans.__('Stopped');
  }
  if (host.signal) {
    return trans.__('Killed by %1', host.signal);
  }
  return [trans.__('Exit code %1', host.code), problem]
    .filter(Boolean)
    .join(': ');
}

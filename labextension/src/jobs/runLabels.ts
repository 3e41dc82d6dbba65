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
  for (const each of run.hosts) {
    const text = outcome(each);
    groups.set(text, [...(groups.get(text) ?? []), each.host]);
  }
  return [...groups].map(([text, hosts]) =>
    run.hosts.length > 1 ? `${hostNumbers(hosts)} ${text}` : text
  );
}

function outcome(each: IHostRun): string {
  const problem = each.problem
    ? `${each.problem.message} ${each.problem.hint}`.trim()
    : '';
  switch (each.state) {
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
  if (each.cause === 'abandoned') {
    return trans.__('Stopped, because the connection was lost for too long');
  }
  if (each.cause === 'stopped') {
    return trans.__('Stopped');
  }
  if (each.signal) {
    return trans.__('Killed by %1', each.signal);
  }
  return [trans.__('Exit code %1', each.code), problem]
    .filter(Boolean)
    .join(': ');
}

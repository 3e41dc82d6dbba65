// Commands on hosts, in words.

import { grouped } from '../language/grouped';
import { hostNumbers } from '../language/hostRanges';
import { joined, problemLine } from '../language/text';
import { trans } from '../language/translation';
import { IHostRun, IRun } from '../rest/api';

/** The command as it was typed. */
export function runTitle({ command }: IRun): string {
  const [program, option, script] = command;
  return program === 'sh' && option === '-c' ? script : command.join(' ');
}

/** A line for each way in which it goes or has ended, with its hosts where there are several. */
export function runOutcomes(run: IRun): string[] {
  return grouped(run.hosts, outcome).map(([text, hosts]) =>
    run.hosts.length > 1
      ? `${hostNumbers(hosts.map(({ host }) => host))} ${text}`
      : text
  );
}

function outcome(host: IHostRun): string {
  const problem = problemLine(host.problem);
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
  return joined(': ', trans.__('Exit code %1', host.code), problem);
}

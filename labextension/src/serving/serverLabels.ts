// What the panel says of servers of models.

import { facts } from '../language/text';
import { Tone, trans } from '../language/translation';
import { isOver } from '../model/jobs';
import { IJob, ITunnel } from '../rest/api';

/** The state of a job that is a server. */
export type ServerState =
  | 'starting'
  | 'healthy'
  | 'unhealthy'
  | 'restarting'
  | 'waiting'
  | 'stopping'
  | 'stopped'
  | 'failed'
  | 'unknown';

export const SERVER_TONES: { [state in ServerState]: Tone } = {
  failed: 'bad',
  healthy: 'good',
  restarting: 'moving',
  starting: 'moving',
  stopped: 'quiet',
  stopping: 'moving',
  unhealthy: 'bad',
  unknown: 'quiet',
  waiting: 'moving'
};

function hostsOf(job: IJob) {
  return job.attempts[job.attempts.length - 1].hosts;
}

function firstHost(job: IJob) {
  return hostsOf(job)[0];
}

/** Another host than the first on which it is being started again. */
function restartingHost(job: IJob) {
  return hostsOf(job)
    .slice(1)
    .find(({ serving }) => serving?.state === 'restarting');
}

export function serverState(job: IJob): ServerState {
  switch (job.state) {
    case 'running': {
      const state = firstHost(job).serving?.state ?? 'starting';
      return state === 'healthy' && restartingHost(job) ? 'restarting' : state;
    }
    case 'ended':
    case 'failed':
    case 'lost':
      return 'failed';
    default:
      return job.state;
  }
}

export function serverStateLabel(state: ServerState): string {
  return {
    failed: trans.__('failed'),
    healthy: trans.__('healthy'),
    restarting: trans.__('restarting'),
    starting: trans.__('starting'),
    stopped: trans.__('stopped'),
    stopping: trans.__('stopping'),
    unhealthy: trans.__('does not answer'),
    unknown: trans.__('unknown: its host can’t be reached'),
    waiting: trans.__('waiting for the TPU')
  }[state];
}

/** Where a server answers on this computer; "" if no port leads to it. */
export function serverURL(job: IJob, tunnels: ITunnel[]): string {
  const { host } = firstHost(job);
  const port = job.serving?.port;
  const tunnel = tunnels.find(one => one.host === host && one.port === port);
  return tunnel && !isOver(job) ? `http://localhost:${tunnel.local_port}` : '';
}

/** What else is to be known of a server. */
export function serverFacts(job: IJob, url: string): string {
  const host = firstHost(job);
  const { serving } = host;
  const runs = job.state === 'running' && serving;
  const other = restartingHost(job);
  const restarts = Math.max(
    ...hostsOf(job).map(one => one.serving?.restarts ?? 0)
  );
  return facts(
    url,
    runs &&
      typeof serving.requests === 'number' &&
      trans.__('%1 requests/s', serving.requests),
    runs &&
      typeof serving.tokens === 'number' &&
      trans.__('%1 tokens/s', serving.tokens),
    runs &&
      !!serving.waiting &&
      trans._n('%1 request waits', '%1 requests wait', serving.waiting),
    runs &&
      restarts > 0 &&
      trans._n('restarted once', 'restarted %1 times', restarts),
    runs &&
      !!serving.exposed &&
      trans.__(
        'listens on %1: other machines in the network of the TPU can reach it',
        serving.exposed
      ),
    !runs
      ? !job.stopped && host.cause
      : other?.serving?.problem
        ? trans.__('Host %1: %2', other.host, other.serving.problem)
        : serving.problem
  );
}

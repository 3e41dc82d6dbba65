// What the panel says of jobs.

import { hostRanges } from '../language/hostRanges';
import { IQuestion, problemLine } from '../language/text';
import { ago, Tone, trans } from '../language/translation';
import { isOver } from '../model/jobs';
import { IHostJob, IJob, ITPU } from '../rest/api';

export const JOB_TONES: { [state in IJob['state']]: Tone } = {
  ended: 'good',
  failed: 'bad',
  lost: 'bad',
  running: 'moving',
  starting: 'moving',
  stopped: 'quiet',
  stopping: 'moving',
  unknown: 'quiet',
  waiting: 'moving'
};

/** "running", "failed with exit code 3". */
export function jobState(job: IJob): string {
  return {
    ended: trans.__('ended with exit code 0'),
    failed:
      job.exit_code === null
        ? trans.__('failed')
        : trans.__('failed with exit code %1', job.exit_code),
    lost: trans.__('lost with its host'),
    running: trans.__('running'),
    starting: trans.__('starting'),
    stopped: trans.__('stopped'),
    stopping: trans.__('stopping'),
    unknown: trans.__('unknown: its host can’t be reached'),
    waiting: trans.__('waiting for the TPU')
  }[job.state];
}

/** What is asked before a job is stopped. */
export function stopQuestion({ name }: IJob): IQuestion {
  return {
    title: trans.__('Stop %1?', name),
    text: trans.__(
      'The command and its processes are sent SIGTERM and, after 10 seconds, SIGKILL. The output is kept.'
    ),
    accept: trans.__('Stop')
  };
}

/** What else is to be known of a job: hosts, times, attempts and problems. */
export function jobDetails(job: IJob, tpu: ITPU, now: number): string[] {
  const attempt = job.attempts[job.attempts.length - 1];
  const started = ago(attempt.created, now);
  const ended = ago(job.ended, now);
  const hosts = attempt.hosts.map(one => one.host);
  return [
    hosts.length < tpu.hosts.length &&
      (hosts.length === 1
        ? trans.__('host %1', hosts[0])
        : trans.__('hosts %1', hostRanges(hosts))),
    isOver(job) && ended
      ? trans.__('ended %1', ended)
      : started && trans.__('started %1', started),
    attempt.number > 1 && trans.__('attempt %1', attempt.number),
    job.notice,
    ...attempt.hosts.map(one => problem(one, hosts.length))
  ].filter((one): one is string => !!one);
}

/** What a host has to say beyond the job's state. */
function problem(one: IHostJob, hosts: number): string {
  const ended = one.state === 'ended' && !one.exit_code;
  const why = problemLine(one.problem) || one.paused || (!ended && one.cause);
  return why && hosts > 1 ? trans.__('Host %1: %2', one.host, why) : why || '';
}

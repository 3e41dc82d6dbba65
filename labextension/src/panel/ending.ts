// Why a TPU does not run: who ended that, when, why, and what can be done now.

import { trans } from '../language/translation';
import { IOperation, ITPU } from '../rest/api';

export interface IEnding {
  title: string;
  who: string;
  /** RFC 3339; "" where that is not known. */
  when: string;
  /** Whether it may have been before that, since nobody looked. */
  seen?: boolean;
  /** "" where that is not known. */
  why: string;
  now: string;
}

/** Null for a TPU that runs, or that nothing has ended. *operations*: its own, the newest first. */
export function endingOf(tpu: ITPU, operations: IOperation[]): IEnding | null {
  const { advice, name, problem, state } = tpu;
  switch (state) {
    case 'STOPPED':
      return {
        title: trans.__('%1 is stopped', name),
        ...stopper(tpu, operations),
        now: trans.__('Start it to go on. Its disk is kept. %1', costs(tpu))
      };
    case 'PREEMPTED':
    case 'TERMINATED':
      return {
        title:
          state === 'PREEMPTED'
            ? trans.__('%1 was preempted', name)
            : trans.__('%1 was ended', name),
        who: trans.__('Google'),
        when: tpu.interruption?.noticed || tpu.ended,
        seen: !tpu.interruption,
        why:
          tpu.tier === 'spot'
            ? trans.__('Google needed its capacity: it is a Spot TPU.')
            : tpu.run_for !== null
              ? trans.__('Its run time was over.')
              : (problem?.message ?? ''),
        now: problem?.hint || advice
      };
    default:
      return null;
  }
}

function stopper(
  { ended, guard_stop: guard }: ITPU,
  operations: IOperation[]
): Pick<IEnding, 'who' | 'when' | 'seen' | 'why'> {
  if (guard) {
    return {
      who: guard.certain
        ? trans.__('Its guard')
        : trans.__('Probably its guard, while no Jupyter server watched it'),
      when: guard.time || ended,
      seen: !guard.time,
      why: {
        '': '',
        idle: trans.__('It was idle for as long as its guard allows.'),
        time: trans.__('Its time limit was reached.'),
        cost: trans.__('Its cost limit was reached.')
      }[guard.reason]
    };
  }
  const stop = operations.find(
    ({ kind, state }) => kind === 'stop' && state === 'done'
  );
  return stop
    ? {
        who: trans.__('A user of this Jupyter server, or a program'),
        when: stop.ended || stop.created,
        why: ''
      }
    : {
        who: trans.__('Not known: it was not done by this Jupyter server'),
        when: ended,
        seen: true,
        why: ''
      };
}

function costs({ cost, emulated }: ITPU): string {
  return emulated || cost.usd_per_hour === 0
    ? ''
    : trans.__('Only the disk is billed until then.');
}

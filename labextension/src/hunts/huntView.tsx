// A hunt: its attempts, the newest first, and when the next one begins.

import React from 'react';

import { clock, trans } from '../language/translation';
import { IHunt, IHuntAttempt } from '../rest/api';
import { StateLabel } from '../ui/elements';
import { Row } from '../ui/rows';
import {
  ATTEMPT_TONES,
  attemptPlace,
  attemptState,
  huntOutlook
} from './huntLabels';

export function HuntOutlook({ hunt }: { hunt: IHunt }) {
  return (
    <div className="jp-tpu-Operation-step">
      {huntOutlook(hunt, new Date()).join(' ')}
    </div>
  );
}

/** limit: how many attempts are shown, each in few lines; all of them can be scrolled. */
export function HuntAttempts(props: { hunt: IHunt; limit?: number }) {
  const { hunt, limit } = props;
  const attempts = [...hunt.attempts].reverse().slice(0, limit);
  return attempts.length === 0 ? null : (
    <ul
      className={`jp-tpu-Hunt ${limit ? 'jp-mod-short' : ''}`}
      tabIndex={limit ? undefined : 0} // it scrolls
      aria-label={trans.__('Attempts to create %1', hunt.name)}
    >
      {attempts.map(attempt => (
        <Attempt key={attempt.number} attempt={attempt} />
      ))}
    </ul>
  );
}

function Attempt({ attempt }: { attempt: IHuntAttempt }) {
  const place = attemptPlace(attempt);
  return (
    <Row
      name={place}
      title={place}
      more={
        <span title={attempt.problem?.message}>
          <StateLabel tone={ATTEMPT_TONES[attempt.state]}>
            {attemptState(attempt.state)}
          </StateLabel>
          {` · ${clock(attempt.started)}`}
          {attempt.problem && ` · ${attempt.problem.message}`}
        </span>
      }
    />
  );
}

// A hunt: its attempts, the newest first, and when the next one begins.

import React from 'react';

import { Actions } from '../actions/actions';
import { IHunt, IHuntAttempt } from '../rest/api';
import { StateLabel } from '../ui/elements';
import {
  ATTEMPT_TONES,
  attemptPlace,
  attemptState,
  clockTime,
  huntOutlook
} from './huntLabels';

export function HuntOutlook(props: {
  hunt: IHunt;
  actions: Actions;
}): JSX.Element {
  const { actions, hunt } = props;
  const { language, trans } = actions;
  return (
    <div className="jp-tpu-Operation-step">
      {huntOutlook(hunt, new Date(), language, trans).join(' ')}
    </div>
  );
}

/** limit: how many attempts are shown. */
export function HuntAttempts(props: {
  hunt: IHunt;
  actions: Actions;
  limit?: number;
}): JSX.Element | null {
  const { actions, hunt, limit } = props;
  const { trans } = actions;
  const attempts = [...hunt.attempts].reverse().slice(0, limit);
  return attempts.length === 0 ? null : (
    <ul
      className="jp-tpu-Hunt"
      aria-label={trans.__('Attempts to create %1', hunt.name)}
    >
      {attempts.map(attempt => (
        <Attempt key={attempt.number} attempt={attempt} actions={actions} />
      ))}
    </ul>
  );
}

function Attempt(props: {
  attempt: IHuntAttempt;
  actions: Actions;
}): JSX.Element {
  const { actions, attempt } = props;
  const { language, trans } = actions;
  const place = attemptPlace(attempt, trans);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={place}>
        {place}
      </span>
      <span className="jp-tpu-Row-more">
        <StateLabel tone={ATTEMPT_TONES[attempt.state]}>
          {attemptState(attempt.state, trans)}
        </StateLabel>
        {` · ${clockTime(attempt.started, new Date(), language)}`}
        {attempt.problem && ` · ${attempt.problem.message}`}
      </span>
    </li>
  );
}

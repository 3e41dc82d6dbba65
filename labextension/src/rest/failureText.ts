// What the panel says of failures.

import { joined, problemLine } from '../language/text';
import { trans } from '../language/translation';
import { IFleetStatus, IProblem } from './api';
import { Failure } from './failure';

/** What stands in the way of something that is tried again without the user. */
export function problemText(problem: IProblem): {
  message: string;
  hint: string;
} {
  const { message, hint, retry_after: seconds } = problem;
  const again = seconds && trans.__('Trying again in %1.', inSeconds(seconds));
  return { message, hint: joined(' ', hint, again) };
}

/** What does not work in the server's own loops, and goes on being tried. */
export function serverProblems(
  status: IFleetStatus
): { message: string; hint: string }[] {
  const loops = status.loops.filter(loop => loop.failing);
  return [
    ...(status.storage ? [problemText(status.storage)] : []),
    ...loops.map(loop => ({
      message: trans.__(
        'A background task of the server (%1) fails: %2',
        loop.name,
        loop.last_error
      ),
      hint: trans.__(
        'What is shown may be out of date. It is restarted automatically. The server’s log has the details.'
      )
    }))
  ];
}

/** Whether the Jupyter server itself does not answer. */
export function isUnreachable(
  problem: IProblem | Failure | null
): problem is Failure {
  return problem?.reason === 'NETWORK';
}

/** What a failure says, in the user's language where it comes from this page. */
export function failureText(
  failure: Pick<Failure, 'message' | 'hint'> & {
    reason: string;
    retry_after?: number | null;
  }
): { message: string; hint: string } {
  const texts: { [reason: string]: { message: string; hint: string } } = {
    NETWORK: {
      message: trans.__('The Jupyter server is not responding.'),
      hint: trans.__('Check that it is running and that you are online.')
    },
    MISSING: {
      message: trans.__(
        'The TPU extension is not enabled on the Jupyter server.'
      ),
      hint: trans.__(
        'Run `jupyter server extension enable jupyter_tpu` in a terminal and restart the server.'
      )
    },
    DENIED: {
      message: trans.__('The Jupyter server refused the request.'),
      hint: trans.__('Check that you are logged in.')
    },
    OUTDATED: {
      message: trans.__('This part of the page could not be loaded.'),
      hint: trans.__(
        'The TPU extension may have been upgraded. Save your work, then reload the page.'
      )
    },
    STATUS: {
      message: trans.__(
        'The Jupyter server answered with an error: %1',
        failure.message
      ),
      hint: ''
    },
    CLOSED: { message: trans.__('It was closed while it opened.'), hint: '' }
  };
  if (failure.reason in texts) {
    return texts[failure.reason];
  }
  const { message, hint, retry_after: seconds } = failure;
  const again = seconds && trans.__('Try again in %1.', inSeconds(seconds));
  return { message, hint: joined(' ', hint, again) };
}

/** Why a request failed, and what to do, in one line. */
export function failureLine(error: unknown): string {
  return problemLine(failureText(Failure.from(error)));
}

/** "30 s", "5 min". */
function inSeconds(seconds: number): string {
  return seconds < 120
    ? trans.__('%1 s', Math.ceil(seconds))
    : trans.__('%1 min', Math.ceil(seconds / 60));
}

// What the panel says of failures.

import { TranslationBundle } from '@jupyterlab/translation';

import { Failure } from '../model/client';

/** What a failure says, in the user's language where it comes from this page. */
export function failureText(
  failure: Pick<Failure, 'message' | 'hint'> & { reason: string },
  trans: TranslationBundle
): { message: string; hint: string } {
  switch (failure.reason) {
    case 'NETWORK':
      return {
        message: trans.__('The Jupyter server is not responding.'),
        hint: trans.__('Check that it is running and that you are online.')
      };
    case 'MISSING':
      return {
        message: trans.__(
          'The TPU extension is not enabled on the Jupyter server.'
        ),
        hint: trans.__(
          'Run `jupyter server extension enable jupyter_tpu` in a terminal and restart the server.'
        )
      };
    case 'DENIED':
      return {
        message: trans.__('The Jupyter server refused the request.'),
        hint: trans.__('Check that you are logged in.')
      };
    case 'STATUS':
      return {
        message: trans.__(
          'The Jupyter server answered with an error: %1',
          failure.message
        ),
        hint: ''
      };
    case 'CLOSED':
      return { message: trans.__('It was closed while it opened.'), hint: '' };
    default:
      return { message: failure.message, hint: failure.hint };
  }
}

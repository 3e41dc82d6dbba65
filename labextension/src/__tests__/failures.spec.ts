import { expect, it } from 'vitest';

import { failureOf } from '../rest/failure';
import { failureLine } from '../rest/failureText';

it('says to reload the page where a part of it was replaced by an upgrade', () => {
  const error = Object.assign(new Error('Loading chunk 123 failed.'), {
    name: 'ChunkLoadError'
  });
  expect(failureLine(error)).toBe(
    'This part of the page could not be loaded. The TPU extension may have been upgraded. Save your work, then reload the page.'
  );
});

it('says a hint once, which a route of Jupyter’s own has in its message, too', () => {
  const hint = 'Shut it down.';
  const body = { message: `It is in use. ${hint}`, hint, reason: 'CHIPS_HELD' };
  expect(failureLine(failureOf(409, JSON.stringify(body)))).toBe(
    'It is in use. Shut it down.'
  );
});

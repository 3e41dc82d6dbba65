import { expect, it } from 'vitest';

import { failureLine } from '../rest/failureText';

it('says to reload the page where a part of it was replaced by an upgrade', () => {
  const error = Object.assign(new Error('Loading chunk 123 failed.'), {
    name: 'ChunkLoadError'
  });
  expect(failureLine(error)).toBe(
    'This part of the page could not be loaded. The TPU extension may have been upgraded. Save your work, then reload the page.'
  );
});

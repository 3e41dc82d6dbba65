import { describe, expect, it } from 'vitest';

import { TPUClient } from '../rest/client';
import { anOperation, aTPU, TestServer } from './server';

describe('TPUServer', () => {
  it('names a TPU by zone and name below the base URL', async () => {
    const answers = {
      'POST tpus/us-central1-a~my-tpu/connect': [202, anOperation()] as [
        number,
        unknown
      ]
    };
    const server = new TestServer(answers);
    const request = { packages: ['flax'] };
    const operation = await new TPUClient(server.settings).connect(
      aTPU(),
      request
    );
    expect(operation.id).toBe('o1');
    expect(server.calls[0].body).toEqual(request);
  });

  it('accepts an answer without a body', async () => {
    const server = new TestServer({
      'DELETE tpus/us-central1-a~my-tpu/kernels/k': [200, '']
    });
    await expect(
      new TPUClient(server.settings).kernels.shutDown(aTPU(), 'k')
    ).resolves.toBeUndefined();
  });

  it.each([
    [
      'what the server says was wrong',
      [429, { message: 'Too many.', reason: 'QUOTA', hint: 'Wait.' }],
      { message: 'Too many.', reason: 'QUOTA', hint: 'Wait.' }
    ],
    ['a missing extension', [404, '<html>404</html>'], { reason: 'MISSING' }],
    ['a login that is over', [403, '<html>'], { reason: 'DENIED' }],
    ['a login page of a proxy', [200, '<html>'], { reason: 'DENIED' }],
    [
      'a crash that Jupyter Server reports',
      [500, { message: 'Unhandled error', reason: null }],
      { message: 'Unhandled error', reason: 'INTERNAL' }
    ],
    ['a server that is gone', 'no network', { reason: 'NETWORK' }]
  ])('throws %s as a failure', async (_, answer, expected) => {
    const server = new TestServer({ 'GET catalog': answer as never });
    await expect(
      new TPUClient(server.settings).catalog()
    ).rejects.toMatchObject(expected as object);
  });
});

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { TPUModel } from '../model/model';
import { TPUClient } from '../rest/client';
import {
  anOperation,
  aTPU,
  connectedTPU,
  listOf,
  openModel,
  refused,
  TestChangeFeed,
  TestServer
} from './server';

const KEY = 'us-central1-a/my-tpu';
const TPU = 'tpus/us-central1-a~my-tpu';

describe('what the server tells', () => {
  it('replaces a TPU, adds one, and takes one away', async () => {
    const { model, changes } = await openModel(listOf(aTPU()));
    const changed = vi.fn();
    model.stateChanged.connect(changed);
    changes.tpu(aTPU({ state: 'STOPPED' }));
    changes.tpu(aTPU({ name: 'another' }));
    expect(model.tpus.map(({ name, state }) => [name, state])).toEqual([
      ['another', 'READY'],
      ['my-tpu', 'STOPPED']
    ]);
    changes.gone('tpu', KEY);
    expect(model.tpus.map(tpu => tpu.name)).toEqual(['another']);
    expect(changed).toHaveBeenCalledTimes(3);
  });

  it('keeps two TPUs of one name in two zones apart', async () => {
    const { model, changes } = await openModel();
    changes.tpu(aTPU());
    changes.tpu(aTPU({ zone: 'us-west4-a', state: 'STOPPED' }));
    expect(model.tpu(KEY)?.state).toBe('READY');
    expect(model.tpu('us-west4-a/my-tpu')?.state).toBe('STOPPED');
  });

  it('wins over the answer that it overtook', async () => {
    const { model, server, changes } = await openModel();
    server.answers['GET tpus'] = () => {
      // Told while the (older) answer is on its way.
      changes.tpu(aTPU({ state: 'STOPPED' }));
      return [200, { tpus: [aTPU({ state: 'READY' })], problem: null }];
    };
    await model.refresh();
    expect(model.tpu(KEY)?.state).toBe('STOPPED');
  });

  it('keeps the log when an operation comes without it', async () => {
    const { model, changes } = await openModel();
    changes.operation(anOperation({ log: ['one', 'two'] }));
    changes.operation(anOperation({ progress: 0.5 }));
    expect(model.operation('o1')).toMatchObject({
      log: ['one', 'two'],
      progress: 0.5
    });
  });

  it('leaves out operations that are about no TPU', async () => {
    const { model, changes } = await openModel();
    const compile = anOperation({ kind: 'compile', tpu: '', zone: '' });
    changes.operation(compile);
    changes.operation({ ...compile, state: 'failed' });
    expect(model.operations).toEqual([]);
  });

  it('says once that an operation has ended', async () => {
    const { model, changes } = await openModel();
    const ended = vi.fn();
    model.operationEnded.connect(ended);
    changes.operation(anOperation());
    changes.operation(anOperation({ state: 'failed' }));
    changes.operation(anOperation({ state: 'failed' }));
    expect(ended).toHaveBeenCalledOnce();
  });

  it('says that kernelspecs changed when an environment is ready', async () => {
    const { model, changes } = await openModel(listOf(aTPU()));
    const told = vi.fn();
    model.kernelspecsChanged.connect(told);
    changes.tpu(aTPU({ kernels: 1 }));
    expect(told).not.toHaveBeenCalled();
    changes.tpu(connectedTPU());
    expect(told).toHaveBeenCalledTimes(1);
    changes.gone('tpu', KEY);
    expect(told).toHaveBeenCalledTimes(2);
  });
});

describe('the list', () => {
  it('is missing where the server has no extension', async () => {
    const { model } = await openModel({ 'GET tpus': [404, '<html>'] });
    expect(model.phase).toBe('missing');
  });

  it('comes with the reason why it may be incomplete', async () => {
    const problem = { message: 'No project.', reason: 'NO_PROJECT', hint: '' };
    const { model } = await openModel({
      'GET tpus': [200, { tpus: [], problem }]
    });
    expect(model.phase).toBe('ready');
    expect(model.problem).toEqual(problem);
  });

  it('stays when it cannot be asked for again, with the reason', async () => {
    const { model, server } = await openModel(listOf(aTPU()));
    server.answers['GET tpus'] = 'no network';
    await model.refresh();
    expect(model.phase).toBe('ready');
    expect(model.tpus).toHaveLength(1);
    expect(model.problem?.reason).toBe('NETWORK');
    Object.assign(server.answers, listOf());
    await model.refresh();
    expect(model.problem).toBeNull();
  });

  it('says nothing of successes from before the page was opened', async () => {
    const { model } = await openModel({
      ...listOf(aTPU()),
      'GET operations': [
        200,
        [
          anOperation({ id: 'old', state: 'done' }),
          anOperation({ id: 'bad', state: 'failed' })
        ]
      ]
    });
    expect(model.operations.map(operation => operation.id)).toEqual(['bad']);
  });
});

describe('what is asked for', () => {
  it('shows its operation before any event', async () => {
    const { model } = await openModel({
      [`POST ${TPU}/start`]: [202, anOperation({ kind: 'start' })]
    });
    const sent = model.send(aTPU(), client => client.start(aTPU(), {}));
    expect(await sent).toBe(true);
    expect(model.operationsOf(aTPU())).toHaveLength(1);
  });

  it('keeps a refusal with its TPU until the next try', async () => {
    const { model, server } = await openModel({
      [`POST ${TPU}/stop`]: refused('It is busy.')
    });
    const stop = () => model.send(aTPU(), client => client.stop(aTPU(), {}));
    expect(await stop()).toBe(false);
    expect(model.failure(aTPU())).toMatchObject({ reason: 'CONFLICT' });
    server.answers[`POST ${TPU}/stop`] = [202, anOperation({ kind: 'stop' })];
    await stop();
    expect(model.failure(aTPU())).toBeUndefined();
  });

  it('dismisses what has ended, never what runs', async () => {
    const { model, changes } = await openModel();
    changes.operation(anOperation());
    model.dismiss('o1');
    expect(model.operations).toHaveLength(1);
    changes.operation(anOperation({ state: 'cancelled' }));
    model.dismiss('o1');
    expect(model.operations).toHaveLength(0);
  });
});

describe('events and the poll', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  function unopened(connected: boolean) {
    const server = new TestServer();
    const changes = new TestChangeFeed();
    changes.connected = connected;
    const model = new TPUModel(new TPUClient(server.settings), changes);
    return { server, changes, model };
  }

  it('asks once, and never again while events flow', async () => {
    const { model, server } = unopened(true);
    model.open();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.count('GET tpus')).toBe(1);
    expect(server.count('GET operations')).toBe(1);
    model.dispose();
  });

  it('asks once when events begin to flow soon after the start', async () => {
    const { model, server, changes } = unopened(false);
    model.open();
    await vi.advanceTimersByTimeAsync(500);
    changes.flow(true);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.count('GET tpus')).toBe(1);
    model.dispose();
  });

  it('asks for everything after a reconnect', async () => {
    const { model, server, changes } = unopened(true);
    model.open();
    await vi.advanceTimersByTimeAsync(100);
    changes.flow(false);
    Object.assign(server.answers, listOf(aTPU()));
    changes.flow(true);
    await vi.advanceTimersByTimeAsync(100);
    expect(model.tpus).toHaveLength(1);
    expect(server.count('GET tpus')).toBe(2);
    model.dispose();
  });

  it('polls while events do not flow, and stops when they do', async () => {
    const { model, server, changes } = unopened(false);
    model.open();
    await vi.advanceTimersByTimeAsync(3_000);
    expect(model.phase).toBe('ready');
    expect(server.count('GET tpus')).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    const polled = server.count('GET tpus');
    expect(polled).toBeGreaterThanOrEqual(3);
    changes.flow(true);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.count('GET tpus')).toBe(polled + 1);
    model.dispose();
  });

  it('does not poll while the page is hidden', async () => {
    const seen = vi.spyOn(document, 'visibilityState', 'get');
    seen.mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
    const { model, server } = unopened(false);
    model.open();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.count('GET tpus')).toBe(0);
    seen.mockReturnValue('visible');
    document.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.count('GET tpus')).toBeGreaterThan(0);
    seen.mockRestore();
    model.dispose();
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { TPUModel } from '../model/model';
import { TPUClient } from '../rest/client';
import {
  anOperation,
  aTPU,
  connectedTPU,
  openModel,
  TestChangeFeed,
  TestServer
} from './server';

const KEY = 'us-central1-a/my-tpu';

describe('what the server tells', () => {
  it('replaces a TPU, adds one, and takes one away', async () => {
    const { model, changes } = await openModel({
      'GET tpus': [200, { tpus: [aTPU()], problem: null }]
    });
    let changed = 0;
    model.stateChanged.connect(() => {
      changed += 1;
    });
    changes.tpu(aTPU({ state: 'STOPPED' }));
    changes.tpu(aTPU({ name: 'another' }));
    expect(model.tpus.map(({ name, state }) => [name, state])).toEqual([
      ['another', 'READY'],
      ['my-tpu', 'STOPPED']
    ]);
    changes.gone('tpu', KEY);
    expect(model.tpus.map(tpu => tpu.name)).toEqual(['another']);
    expect(changed).toBe(3);
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
    const ended: string[] = [];
    model.operationEnded.connect((_, operation) => {
      ended.push(operation.state);
    });
    changes.operation(anOperation());
    changes.operation(anOperation({ state: 'failed' }));
    changes.operation(anOperation({ state: 'failed' }));
    expect(ended).toEqual(['failed']);
  });

  it('says that kernelspecs changed when an environment is ready', async () => {
    const { model, changes } = await openModel({
      'GET tpus': [200, { tpus: [aTPU()], problem: null }]
    });
    let told = 0;
    model.kernelspecsChanged.connect(() => {
      told += 1;
    });
    changes.tpu(aTPU({ kernels: 1 }));
    expect(told).toBe(0);
    changes.tpu(connectedTPU());
    expect(told).toBe(1);
    changes.gone('tpu', KEY);
    expect(told).toBe(2);
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
    const { model, server } = await openModel({
      'GET tpus': [200, { tpus: [aTPU()], problem: null }]
    });
    server.answers['GET tpus'] = 'no network';
    await model.refresh();
    expect(model.phase).toBe('ready');
    expect(model.tpus).toHaveLength(1);
    expect(model.problem?.reason).toBe('NETWORK');
    server.answers['GET tpus'] = [200, { tpus: [], problem: null }];
    await model.refresh();
    expect(model.problem).toBeNull();
  });

  it('says nothing of successes from before the page was opened', async () => {
    const { model } = await openModel({
      'GET tpus': [200, { tpus: [aTPU()], problem: null }],
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
      'POST tpus/us-central1-a~my-tpu/start': [
        202,
        anOperation({ kind: 'start' })
      ]
    });
    expect(await model.send(aTPU(), client => client.start(aTPU(), {}))).toBe(
      true
    );
    expect(model.operationsOf(aTPU())).toHaveLength(1);
  });

  it('keeps a refusal with its TPU until the next try', async () => {
    const { model, server } = await openModel({
      'POST tpus/us-central1-a~my-tpu/stop': [
        409,
        { message: 'It is busy.', reason: 'CONFLICT', hint: 'Wait.' }
      ]
    });
    expect(await model.send(aTPU(), client => client.stop(aTPU(), {}))).toBe(
      false
    );
    expect(model.failure(aTPU())).toMatchObject({ reason: 'CONFLICT' });
    server.answers['POST tpus/us-central1-a~my-tpu/stop'] = [
      202,
      anOperation({ kind: 'stop' })
    ];
    await model.send(aTPU(), client => client.stop(aTPU(), {}));
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

  afterEach(() => {
    vi.useRealTimers();
  });

  function unopened(connected: boolean): {
    server: TestServer;
    changes: TestChangeFeed;
    model: TPUModel;
  } {
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
    server.answers['GET tpus'] = [200, { tpus: [aTPU()], problem: null }];
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

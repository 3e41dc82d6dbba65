import { beforeEach, describe, expect, it, vi } from 'vitest';

import { closeApp, closeTunnel } from '../forwarding/portDialog';
import * as kernels from '../kernels/kernelDialogs';
import { submit } from '../lifecycle/formPage';
import * as costs from '../money/costDialogs';
import { cancel } from '../operations/again';
import { IJob, IKernel, ISyncConflict, ISyncResult } from '../rest/api';
import { actionsOf, answerDialog } from './opened';
import {
  aCost,
  aJob,
  aKernel,
  aLoss,
  anApp,
  anOperation,
  Answer,
  aProblem,
  aQuote,
  aTPU,
  aTunnel,
  catalogWith,
  connectedTPU,
  openModel,
  refused,
  TestServerKernels
} from './server';

const ask = vi.spyOn(kernels, 'confirmDestructive');
const askForCost = vi.spyOn(costs, 'confirmCost');
const askToTake = vi.spyOn(kernels, 'confirmTakeOver');
const TPU = 'tpus/us-central1-a~my-tpu';
const LOSS = `GET ${TPU}/consequences`;
const kernel = aKernel();

beforeEach(() => {
  ask.mockReset();
  ask.mockResolvedValue(true);
  askForCost.mockReset();
  askToTake.mockReset();
  askToTake.mockResolvedValue(true);
});

async function openActions(answers: { [call: string]: Answer }) {
  const opened = await openModel(answers);
  const actions = actionsOf(opened.model);
  await actions.loadForms();
  const here = actions.serverKernels as TestServerKernels;
  return { ...opened, actions, here };
}

it('asks before a delete, even where no kernel runs', async () => {
  ask.mockResolvedValue(false);
  const { actions, server } = await openActions({ [LOSS]: aLoss() });
  await actions.act('delete', aTPU());
  expect(ask).toHaveBeenCalledOnce();
  expect(server.count(`DELETE ${TPU}`)).toBe(0);
});

it('names the kernels that end with their TPU', async () => {
  const { actions, server } = await openActions({
    [LOSS]: aLoss({ kernels: [kernel] }),
    [`DELETE ${TPU}`]: [202, anOperation({ kind: 'delete' })]
  });
  const tpu = connectedTPU({ kernels: 1 });
  await actions.act('delete', tpu);
  expect(ask.mock.calls[0][2]).toMatchObject({
    kernels: [kernel],
    known: true
  });
  const { query } = server.calls.find(one => LOSS === `GET ${one.path}`)!;
  expect(query).toMatch(/^act=delete(&|$)/);
  const body = { end_kernels: true, end_jobs: false };
  expect(server.bodies(`DELETE ${TPU}`)).toEqual([body]);
});

it('takes each file in conflict from a host that has changed it', async () => {
  const { actions, server } = await openActions({
    [`POST ${TPU}/sync`]: [202, anOperation({ kind: 'sync' })]
  });
  const conflict = (path: string, ...hosts: number[]): ISyncConflict => ({
    path,
    kind: 'changed',
    here: '',
    there: '',
    hosts
  });
  const result = {
    folder: '/home/me/project',
    remote: '~/project',
    conflicts: [conflict('a', 2), conflict('b', 1, 2), conflict('c', 2, 3)]
  } as ISyncResult;
  const decided = async (pull: boolean) => {
    const before = server.bodies(`POST ${TPU}/sync`).length;
    expect(await actions.copies.decideConflicts(aTPU(), result, pull)).toBe(
      true
    );
    return server.bodies(`POST ${TPU}/sync`).slice(before);
  };
  expect(await decided(true)).toMatchObject([
    { pull: true, host: 2, only: ['a', 'c'] },
    { pull: true, host: 1, only: ['b'] }
  ]);
  expect(await decided(false)).toMatchObject([
    { pull: false, only: ['a', 'b', 'c'] }
  ]);
});

it('disconnects without a question where nothing is lost', async () => {
  const { actions, server } = await openActions({
    [LOSS]: aLoss(),
    [`POST ${TPU}/disconnect`]: [202, anOperation({ kind: 'disconnect' })]
  });
  await actions.act('disconnect', connectedTPU());
  expect(ask).not.toHaveBeenCalled();
  expect(server.posts).toEqual([{ end_kernels: false }]);
});

it('asks before it stops a TPU, or disconnects one with a web app', async () => {
  ask.mockResolvedValue(false);
  const { actions, server } = await openActions({
    'GET apps': [200, [anApp()]],
    [LOSS]: aLoss()
  });
  await actions.act('stop', connectedTPU());
  await actions.act('disconnect', connectedTPU());
  expect(ask.mock.calls.map(call => call[0])).toEqual(['stop', 'disconnect']);
  expect(server.posts).toEqual([]);
});

describe('a question with its answer', () => {
  const no = () => answerDialog('Cancel');

  it('comes before a start that is billed', async () => {
    const { actions, server } = await openActions({
      [`POST ${TPU}/start`]: [202, anOperation({ kind: 'start' })]
    });
    const off = aTPU({ state: 'STOPPED', emulated: false, cost: aCost() });
    let done = actions.act('start', off);
    expect(await no()).toContain('About $9.60 an hour');
    await done;
    expect(server.count(`POST ${TPU}/start`)).toBe(0);
    done = actions.act('start', off);
    await answerDialog('Start');
    await done;
    // What was shown is what may be paid.
    expect(server.bodies(`POST ${TPU}/start`)).toEqual([
      { confirm_price: true, max_price: aCost().usd_per_hour }
    ]);
  });

  it('comes before what ends on the host or deletes a TPU', async () => {
    const { actions, server } = await openActions({
      'DELETE apps/a1': [204, null],
      [`DELETE ${TPU}/tunnels/t1`]: [204, null],
      'DELETE operations/o1': [200, anOperation({ state: 'cancelled' })]
    });
    const tpu = connectedTPU();
    const deletions = () =>
      server.calls.filter(one => one.method === 'DELETE').length;

    let done = closeApp(actions, tpu, anApp());
    expect(await no()).toContain('TensorBoard stops on the host');
    await done;
    done = closeTunnel(actions, tpu, aTunnel({ connections: 2 }));
    expect(await no()).toContain('This ends 2 connections.');
    await done;
    done = cancel(actions, anOperation({ kind: 'create' }));
    expect(await answerDialog('Continue')).toContain('is deleted');
    await done;
    expect(deletions()).toBe(0);

    await closeApp(actions, tpu, anApp({ kind: 'port' }));
    await closeTunnel(actions, tpu, aTunnel());
    await cancel(actions, anOperation({ kind: 'connect' }));
    expect(deletions()).toBe(3);
  });
});

it('asks again when a kernel was started since the question', async () => {
  let kernels: IKernel[] = [];
  const { actions, server } = await openActions({
    [LOSS]: () => aLoss({ kernels }),
    [`DELETE ${TPU}`]: ({ body }) => {
      kernels = [kernel];
      return (body as { end_kernels: boolean }).end_kernels
        ? [202, anOperation({ kind: 'delete' })]
        : refused('One runs.', 'KERNELS_RUNNING');
    }
  });
  const tpu = connectedTPU();
  await actions.act('delete', tpu);
  expect(ask.mock.calls.map(call => call[2].kernels)).toEqual([[], [kernel]]);
  expect(server.count(`DELETE ${TPU}`)).toBe(2);
  expect(actions.model.failure(tpu)).toBeUndefined();
});

it('names the jobs that end with their TPU, also one that was started since', async () => {
  let jobs: IJob[] = [];
  const started = aJob();
  const { actions, server } = await openActions({
    [LOSS]: () => aLoss({ jobs }),
    [`DELETE ${TPU}`]: ({ body }) => {
      jobs = [started];
      return (body as { end_jobs: boolean }).end_jobs
        ? [202, anOperation({ kind: 'delete' })]
        : refused('One runs.', 'JOBS_RUNNING');
    }
  });
  const tpu = aTPU();
  await actions.act('delete', tpu);
  expect(ask.mock.calls.map(call => call[2].jobs)).toEqual([[], [started]]);
  expect(server.count(`DELETE ${TPU}`)).toBe(2);
  expect(actions.model.failure(tpu)).toBeUndefined();
});

it('still asks where the server does not say what ends, and lets all end then', async () => {
  ask.mockRestore();
  const { actions, server } = await openActions({
    [LOSS]: refused('Its disk is full.', 'DISK_FULL'),
    [`POST ${TPU}/stop`]: [202, anOperation({ kind: 'stop' })]
  });
  const done = actions.act('stop', connectedTPU({ kernels: 3 }));
  const text = await answerDialog('Stop');
  expect(text).toContain('Its disk is full.');
  expect(text).toContain('What runs on my-tpu, and what is lost, could not be');
  await done;
  expect(server.posts).toEqual([{ end_kernels: true, end_jobs: true }]);
});

it('connects again with the environment that was not finished', async () => {
  const { actions, server } = await openActions({
    [`POST ${TPU}/connect`]: [202, anOperation()]
  });
  const [environment] = connectedTPU().environments;
  const failed = { ...environment, name: 'mine', state: 'failed' as const };
  await actions.act('connect', aTPU({ environments: [failed] }));
  expect(server.posts).toEqual([{ environment: 'mine' }]);
});

it('only stops showing a kernel that is dead', async () => {
  const { actions, changes, server } = await openActions({
    [`DELETE ${TPU}/kernels/k1`]: [204, null]
  });
  const problem = aProblem('Gone.', 'NOT_FOUND');
  const lost: IKernel = { ...kernel, state: 'dead', problem };
  const told = vi.fn();
  actions.model.kernelProblem.connect(told);
  changes.kernel(lost);
  changes.kernel(kernel);
  expect(told.mock.calls).toEqual([[actions.model, lost]]);
  await actions.kernels.shutDown(connectedTPU(), lost);
  expect(ask).not.toHaveBeenCalled();
  expect(server.count(`DELETE ${TPU}/kernels/k1`)).toBe(1);
});

it('takes a kernel over once that is confirmed, and shows its notebook', async () => {
  const held = aKernel({ holder: 'me@laptop, process 7' });
  const { actions, here, server } = await openActions({
    [`GET ${TPU}/kernels`]: [200, [held]],
    [`POST ${TPU}/kernels/k1/take`]: [204, null]
  });
  const tpu = connectedTPU();
  askToTake.mockResolvedValueOnce(false);
  await actions.kernels.takeOver(tpu, aKernel({ attached: false }));
  // What is asked is who has it now, not who had it when the list was shown.
  expect(askToTake).toHaveBeenCalledWith(held, tpu);
  expect(server.count(`POST ${TPU}/kernels/k1/take`)).toBe(0);
  await actions.kernels.takeOver(tpu, held);
  expect(server.count(`POST ${TPU}/kernels/k1/take`)).toBe(1);
  expect(here.shown).toEqual(['k1']);
});

it('shows why a kernel was not taken, and no notebook', async () => {
  const { actions, here } = await openActions({
    [`GET ${TPU}/kernels`]: [200, []],
    [`POST ${TPU}/kernels/k1/take`]: refused('It is gone.')
  });
  const tpu = connectedTPU();
  await actions.kernels.takeOver(tpu, kernel);
  expect(actions.model.failure(tpu)?.message).toBe('It is gone.');
  expect(here.shown).toEqual([]);
});

it('creates what costs money only after that was agreed to', async () => {
  const quote = aQuote({ name: 'mine' });
  const { actions, server } = await openActions({
    ...catalogWith({ emulated: false }),
    'POST quotes': [200, quote],
    'POST tpus': [202, anOperation({ kind: 'create', tpu: 'mine' })]
  });
  await actions.model.loadCatalog();
  const form = actions.forms.create;
  form.set('name', 'mine');
  actions.view.show('create');
  askForCost.mockResolvedValueOnce(false);
  await submit(actions, form);
  expect(askForCost).toHaveBeenCalledWith(quote);
  expect(server.count('POST tpus')).toBe(0);
  expect(form.fields.name).toBe('mine');
  expect(actions.view.page).toBe('create');
  askForCost.mockResolvedValueOnce(true);
  await submit(actions, form);
  expect(server.count('POST tpus')).toBe(1);
  const agreed = { confirm_price: true, max_price: 9.6 };
  expect(server.bodies('POST tpus')).toMatchObject([agreed]);
  expect(actions.view.page).toBe('list');
});

it('asks nothing inside a grant, and confirms no price there', async () => {
  const cost = aCost({ grant: 'trc', usd_per_hour: 0 });
  const { actions, server } = await openActions({
    ...catalogWith({ emulated: false }),
    'POST quotes': [200, aQuote({ cost, question: '' })],
    'POST tpus': [202, anOperation({ kind: 'create' })]
  });
  await actions.model.loadCatalog();
  await submit(actions, actions.forms.create);
  expect(askForCost).not.toHaveBeenCalled();
  const free = { confirm_price: false, max_price: 0 };
  expect(server.bodies('POST tpus')).toMatchObject([free]);
});

it('asks nothing about what the server would refuse', async () => {
  const { actions, server } = await openActions({
    ...catalogWith({ emulated: false }),
    'POST quotes': refused('It exists.')
  });
  await actions.model.loadCatalog();
  await submit(actions, actions.forms.create);
  expect(actions.forms.create.failure?.message).toBe('It exists.');
  expect(askForCost).not.toHaveBeenCalled();
  expect(server.count('POST tpus')).toBe(0);
});

it('asks nothing about an emulated TPU, which costs nothing', async () => {
  const { actions, server } = await openActions({
    'POST tpus': [202, anOperation({ kind: 'create' })]
  });
  await actions.model.loadCatalog();
  await submit(actions, actions.forms.create);
  expect(askForCost).not.toHaveBeenCalled();
  expect(server.count('POST tpus')).toBe(1);
});

import { Notification } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { expect, it } from 'vitest';

import { Actions } from '../app/actions';
import { JobLogView } from '../jobs/logView';
import { TPUModel } from '../model/model';
import { addNotifications } from '../operations/notifications';
import { IJobLine, IJobLog } from '../rest/api';
import { TPUClient } from '../rest/client';
import { StoredIds } from '../state/storedIds';
import {
  answerDialog,
  button,
  dialogInputs,
  notified,
  openPage,
  shows,
  type,
  widgets
} from './opened';
import { aJob, aTPU, openModel, TestChangeFeed, TestServer } from './server';

const JOBS = 'tpus/us-central1-a~my-tpu/jobs';

function aLine(number: number, text: string, more = {}): IJobLine {
  return { number, text, time: '', stream: 'out', more: false, ...more };
}

function aLog(lines: IJobLine[], more: Partial<IJobLog> = {}): IJobLog {
  const last = lines.length > 0 ? lines[lines.length - 1].number : 0;
  return {
    host: 0,
    attempt: 1,
    lines,
    oldest: 1,
    next: last + 1,
    last,
    partial_out: '',
    partial_err: '',
    complete: true,
    ...more
  };
}

async function openJobs(...jobs: ReturnType<typeof aJob>[]) {
  return openPage(aTPU(), {
    'GET jobs': [200, jobs],
    [`POST ${JOBS}`]: [201, aJob({ id: 'j2', name: 'echo hi | cat' })],
    [`POST ${JOBS}/j1/stop`]: [200, aJob({ state: 'stopping' })],
    [`DELETE ${JOBS}/j1`]: [204, '']
  });
}

it('lists jobs with state and problems, shows, stops and removes them', async () => {
  const { changes, node, server, shown } = await openJobs(aJob());
  await shows(node, 'train', 'running');
  button(node, 'Show the output of train').click();
  const target = { tpu: 'us-central1-a/my-tpu', job: 'j1', name: 'train' };
  await expect.poll(() => shown).toHaveBeenCalledWith(target);
  button(node, 'Stop train…').click();
  expect(await answerDialog('Stop')).toContain('The output is kept.');
  await shows(node, 'stopping');
  expect(server.count(`POST ${JOBS}/j1/stop`)).toBe(1);
  const ended = aJob({ state: 'failed', exit_code: 3 });
  ended.attempts[0].hosts[0].cause = 'It ended by itself with exit code 3.';
  changes.job(ended);
  await shows(node, 'failed with exit code 3', 'It ended by itself');
  button(node, 'Remove train and its output…').click();
  expect(await answerDialog('Remove')).toContain('will be deleted');
  await shows(node, 'Commands that continue without Jupyter');
  expect(server.count(`DELETE ${JOBS}/j1`)).toBe(1);
});

it('starts a job from the form', async () => {
  const { node, server } = await openJobs();
  button(node, 'New job on my-tpu').click();
  const [command] = await dialogInputs(3);
  type(command, 'echo hi | cat');
  await answerDialog('Start');
  await shows(node, 'echo hi | cat');
  expect(server.posts).toEqual([
    {
      command: ['sh', '-c', 'echo hi | cat'],
      name: 'echo hi | cat',
      hosts: 'all',
      cwd: '',
      environment: '',
      restart_with_tpu: false
    }
  ]);
});

async function openLog(answers: IJobLog[], job = aJob()) {
  const opened = await openModel({
    'GET jobs': [200, [job]],
    [`GET ${JOBS}/j1/log`]: () => [200, answers.shift() ?? aLog([])]
  });
  const target = { tpu: 'us-central1-a/my-tpu', job: 'j1', name: 'train' };
  const view = new JobLogView(target, opened.model);
  widgets.push(view);
  Widget.attach(view, document.body);
  return { ...opened, node: view.node };
}

it('follows the output, with numbers and without colours', async () => {
  const red = '\u001b[31mred\u001b[0m';
  const { node } = await openLog([
    aLog([aLine(5, 'five')], { complete: false, partial_out: '50 %' }),
    aLog([aLine(6, red, { stream: 'err' })], { last: 6 })
  ]);
  await shows(node, 'five', 'red', 'running');
  expect(node.textContent).toContain('For earlier ones, enter a line number');
  expect(node.textContent).not.toContain('50 %');
  expect(node.querySelector('.jp-mod-error')!.textContent).toBe('red');
  const numbers = node.querySelectorAll<HTMLElement>('[data-number]');
  expect([...numbers].map(one => one.dataset.number)).toEqual(['5', '6']);
});

it('says that a search finds nothing, and where nothing was printed', async () => {
  const { node } = await openLog([aLog([])], aJob({ state: 'ended' }));
  await shows(node, 'The job has printed nothing here.');
  const search = node.querySelector<HTMLInputElement>('[type=search]')!;
  type(search, 'error');
  await shows(node, 'No line has this text.');
});

/** A page that is loaded in this browser; what it notifies of. */
async function loadPage(server: TestServer, storage = localStorage) {
  const changes = new TestChangeFeed();
  const model = new TPUModel(
    new TPUClient(server.settings),
    changes,
    new StoredIds(),
    new StoredIds(storage, 'jobs')
  );
  const actions = {
    model,
    offers: () => true,
    view: { visible: true }
  } as unknown as Actions;
  addNotifications(actions, () => true, {
    isOpen: () => false,
    runAbove: async () => {}
  });
  await model.refresh();
  return changes;
}

it('notifies once of each job that has ended, also while no page was open', async () => {
  const old = aJob({ id: 'old', state: 'failed', exit_code: 1 });
  const both = [aJob(), aJob({ id: 'j2', name: 'eval' }), old];
  const server = new TestServer({ 'GET jobs': [200, both] });
  const changes = await loadPage(server);
  expect(notified()).toEqual([]);
  changes.job(aJob({ state: 'ended', exit_code: 0 }));
  changes.job(aJob({ state: 'ended', exit_code: 0 }));
  const first = 'success: train on my-tpu: ended with exit code 0';
  expect(notified()).toEqual([first]);
  changes.dispose();
  const ended = aJob({ id: 'j2', name: 'eval', state: 'failed', exit_code: 3 });
  const now = [aJob({ state: 'ended', exit_code: 0 }), ended, old];
  server.answers['GET jobs'] = [200, now];
  await loadPage(server);
  const second = 'error: eval on my-tpu: failed with exit code 3';
  expect(notified().sort()).toEqual([second, first]);
  Notification.dismiss();
  await loadPage(server);
  expect(notified()).toEqual([]);
});

it('notifies once of a job that seems to hang, and again of its next silence', async () => {
  const changes = await loadPage(
    new TestServer({ 'GET jobs': [200, [aJob()]] })
  );
  changes.job(aJob({ notice: 'No output from host 0.' }));
  changes.job(aJob({ notice: 'No output from hosts 0-3.' }));
  const first = 'warning: train on my-tpu: No output from host 0.';
  expect(notified()).toEqual([first]);
  changes.job(aJob());
  changes.job(aJob({ notice: 'No output from host 1.' }));
  expect(notified()).toHaveLength(2);
});

it('shows where a job stands in a dialog, without what a terminal would obey', async () => {
  const { node, server } = await openPage(aTPU(), {
    'GET jobs': [200, [aJob({ notice: 'No output from host 0.' })]],
    [`GET ${JOBS}/j1/why`]: [
      200,
      { explanation: ['Host 3 is at data.py, line 31: \u001b[31mread()'] }
    ]
  });
  await shows(node, 'No output from host 0.');
  button(node, 'Where does train stand?').click();
  expect(await answerDialog('Close')).toContain(
    'Host 3 is at data.py, line 31: read()'
  );
  expect(server.count(`GET ${JOBS}/j1/why`)).toBe(1);
});

it('does not notify of a job that somebody has stopped', async () => {
  const changes = await loadPage(
    new TestServer({ 'GET jobs': [200, [aJob()]] })
  );
  changes.job(aJob({ state: 'stopped', stopped: true, exit_code: -15 }));
  expect(notified()).toEqual([]);
});

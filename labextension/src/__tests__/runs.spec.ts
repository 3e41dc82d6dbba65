import { Widget } from '@lumino/widgets';
import { expect, it } from 'vitest';

import { OutputLines } from '../jobs/outputLines';
import { runOutcomes, runTitle } from '../jobs/runLabels';
import { RunView } from '../jobs/runTab';
import { IHostRun, IRun, IRunOutput } from '../rest/api';
import { button, dialogInputs, openAction, type, widgets } from './opened';
import { aProblem, aTPU, openModel, someHosts } from './server';

const RUNS = 'tpus/us-central1-a~my-tpu/runs';

function aHostRun(more: Partial<IHostRun> = {}): IHostRun {
  const ended = { state: 'exited', code: 0, signal: '', cause: '' } as const;
  return { host: 0, ...ended, seconds: 1, problem: null, ...more };
}

function aRun(hosts: IHostRun[], more: Partial<IRun> = {}): IRun {
  return {
    id: 'r1',
    tpu: 'my-tpu',
    zone: 'us-central1-a',
    command: ['sh', '-c', 'make test'],
    state: 'running',
    code: null,
    created: '',
    hosts,
    ...more
  };
}

const part = (host: number, text: string) =>
  ({ host, stream: 'stdout', data: btoa(text) }) as const;

async function openTab(run: IRun, answers: Partial<IRunOutput>[]) {
  let offset = 0;
  const opened = await openModel({
    [`GET ${RUNS}/r1/output`]: () => {
      const answer = answers.shift() ?? { ended: false };
      const next = offset + 1;
      const given = { run, start: offset, next, output: [], ended: false };
      offset = next;
      return [200, { ...given, ...answer }];
    },
    [`DELETE ${RUNS}/r1`]: [200, run]
  });
  const tab = new RunView(run, opened.model);
  widgets.push(tab);
  Widget.attach(tab, document.body);
  return { ...opened, tab };
}

it('shows the output as it comes, and how it ended on each host', async () => {
  const running = [0, 1].map(number =>
    aHostRun({ host: number, state: 'running', code: null })
  );
  const done = aRun([aHostRun(), aHostRun({ host: 1, code: 3 })], {
    state: 'done',
    code: 3
  });
  const { tab, server } = await openTab(aRun(running), [
    { output: [part(0, 'one\ntw'), part(1, 'uno\n')] },
    { output: [part(0, 'o\nlast')], run: done, ended: true }
  ]);
  expect(runTitle(done)).toBe('make test');
  await expect
    .poll(() => tab.node.querySelector('pre')?.textContent)
    .toBe('[0] one\n[1] uno\n[0] two\n[0] last\n');
  expect(tab.node.querySelector('[role=status]')?.textContent).toBe(
    'Host 0: Exit code 0\nHost 1: Exit code 3'
  );
  tab.dispose();
  expect(server.count(`DELETE ${RUNS}/r1`), 'it had ended').toBe(0);
});

it('stops the command when its tab is closed', async () => {
  const run = aRun([aHostRun({ state: 'running', code: null })]);
  const { tab, server } = await openTab(run, []);
  tab.dispose();
  await server.counts(`DELETE ${RUNS}/r1`);
});

it('asks for a command and the hosts, and opens a tab', async () => {
  const tpu = aTPU({ hosts: someHosts(2) });
  const run = aRun([]);
  const { done, server, shown } = await openAction('run', tpu, {
    [`POST ${RUNS}`]: [201, run]
  });
  const inputs = await dialogInputs(3);
  ['ls | wc', '1'].forEach((text, index) => type(inputs[index], text));
  button(document.querySelector('.jp-Dialog')!, 'Run').click();
  await done;
  const command = ['sh', '-c', 'ls | wc'];
  expect(server.posts).toEqual([
    { command, hosts: '1', cwd: '', stop_unwatched: 60 }
  ]);
  expect(shown).toHaveBeenCalledWith({ run });
});

it('says what is known of each host', () => {
  const problem = aProblem('It was lost.', 'UNREACHABLE');
  const hosts = [
    aHostRun({ state: 'unknown', problem }),
    aHostRun({ host: 1, signal: 'SIGKILL' }),
    aHostRun({ host: 2, cause: 'stopped', signal: 'SIGINT' }),
    aHostRun({ host: 3, cause: 'stopped', signal: 'SIGINT' })
  ];
  expect(runOutcomes(aRun(hosts))).toEqual([
    'Host 0: Unknown: It was lost.',
    'Host 1: Killed by SIGKILL',
    'Hosts 2–3: Stopped'
  ]);
});

it('shows what a terminal would: no colours, the last of a progress bar', () => {
  const raw = new OutputLines(false);
  expect(raw.add(part(0, '\x1b[31mred\x1b[0m\n'))).toBe('red\n');
  const lines = new OutputLines(true);
  expect(lines.add(part(2, '10%\r100%\r\nnext'))).toBe('[2] 100%\n');
  expect(lines.end()).toBe('[2] next\n');
});

it('puts characters together that came in two pieces', () => {
  const raw = new OutputLines(false);
  const [first, second] = ['\xc3', '\xa4'].map(text => raw.add(part(0, text)));
  expect(first + second).toBe('ä');
});

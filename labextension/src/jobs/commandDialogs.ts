// The dialogs that ask for a command: to run on hosts while its output is shown, or as a job.

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IRun, ITPU } from '../rest/api';
import { FieldList } from '../ui/fields';
import { ask } from '../ui/formDialog';

/** Characters of a command that become the job's name. */
const NAME = 60;
/** Seconds after which the server stops a command whose tab is gone. */
const UNWATCHED = 60;

const NO_COMMAND = { line: '', hosts: 'all', cwd: '' };
type ICommandInput = typeof NO_COMMAND;

/** A command, the hosts where there are several, and its folder. */
const commandFields = (
  tpu: ITPU,
  help: string
): Exclude<FieldList<ICommandInput>[number], JSX.Element>[] => [
  { name: 'line', label: trans.__('Command'), help, required: true },
  tpu.hosts.length > 1 && {
    name: 'hosts',
    label: trans.__('Hosts'),
    help: trans.__('all, 0, or 0,2-5')
  },
  {
    name: 'cwd',
    label: trans.__('Folder on the hosts (optional)'),
    help: trans.__('Empty: the home folder'),
    kind: 'path',
    place: { tpu, folder: true }
  }
];

/** What the server is asked to run. */
const commandOf = ({ line, hosts, cwd }: ICommandInput) => ({
  command: ['sh', '-c', line.trim()],
  hosts: hosts.trim() || 'all',
  cwd: cwd.trim()
});

/** Asks for a command and runs it; null if there is none. */
export async function askRun(tpu: ITPU, model: TPUModel): Promise<IRun | null> {
  let run: IRun | null = null;
  await ask({
    title: trans.__('Run a Command on %1', tpu.name),
    accept: trans.__('Run'),
    initial: NO_COMMAND,
    fields: () =>
      commandFields(
        tpu,
        trans.__('A shell command, such as pip list | grep jax')
      ),
    submit: async input => {
      if (input.line.trim()) {
        const request = { ...commandOf(input), stop_unwatched: UNWATCHED };
        run = await model.client.runs.start(tpu, request);
      }
    }
  });
  return run;
}

/** Asks for a command, and starts it as a job; whether it was started. */
export async function askJob(tpu: ITPU, model: TPUModel): Promise<boolean> {
  const names = tpu.environments.map(({ name }) => name);
  const environment = names.includes('default') ? 'default' : (names[0] ?? '');
  const started = await ask({
    title: trans.__('New Job on %1', tpu.name),
    accept: trans.__('Start'),
    initial: { ...NO_COMMAND, environment, restart: false },
    fields: () => [
      ...commandFields(
        tpu,
        trans.__('A shell command, such as python train.py')
      ),
      names.length > 0 && {
        name: 'environment',
        label: trans.__('Environment'),
        help: trans.__('The job uses this environment’s Python and programs'),
        kind: 'select',
        choices: [
          ...names.map(name => [name, name] as const),
          ['', trans.__('None')]
        ]
      },
      {
        name: 'restart',
        label: trans.__('Start it again after the TPU is restarted'),
        kind: 'check'
      }
    ],
    submit: async ({ restart, ...input }) => {
      if (input.line.trim()) {
        await model.jobs.begin(tpu, {
          ...commandOf(input),
          name: input.line.trim().slice(0, NAME),
          environment: input.environment,
          restart_with_tpu: restart
        });
      }
    }
  });
  return !!started?.line.trim();
}

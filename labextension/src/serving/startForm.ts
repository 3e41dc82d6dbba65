// What is asked before a server of a model is started, and the request that it becomes.

import { trans } from '../language/translation';
import { startRequest, whyNotStoppable } from '../model/availableActions';
import { IStartModelServer, ITPU } from '../rest/api';
import { FieldList } from '../ui/fields';
import { OPTIONAL, TRIMMED } from '../ui/typed';

export interface IServerInput {
  kind: 'command' | 'vllm' | 'ray';
  /** A shell command. */
  command: string;
  vllm: string;
  ray: string;
  /** More arguments of vLLM. */
  more: string;
  port: string;
  health: string;
  /** Whether requests start the TPU while it is stopped. */
  request: boolean;
  restart: boolean;
  name: string;
  hosts: string;
  cwd: string;
  environment: string;
  localPort: string;
  /** null: where servers usually have them. */
  metrics: string | null;
}

/** A port of the server, and what it is told with. Names, so not translated. */
const PORT = '8000';
const EXAMPLES = {
  command: 'python server.py',
  health: '/health',
  metrics: '/metrics',
  ray: 'module:app',
  vllm: 'google/gemma-3-1b-it'
};

export function emptyServer(tpu: ITPU): IServerInput {
  const names = tpu.environments.map(({ name }) => name);
  return {
    kind: 'command',
    command: '',
    vllm: '',
    ray: '',
    more: '',
    port: PORT,
    health: '',
    request: false,
    restart: false,
    name: '',
    hosts: '',
    cwd: '',
    environment: names.includes('default') ? 'default' : (names[0] ?? ''),
    localPort: '',
    metrics: null
  };
}

/** Whether the TPU can be stopped and started, so that requests can start it. */
export function canStartOnRequest(tpu: ITPU): boolean {
  return !tpu.attached && !whyNotStoppable(tpu);
}

/**
 * What is asked of everybody. No field that depends on a choice is required: JupyterLab does not notice
 * that an empty one has gone. The server refuses it.
 *
 * @param price what is shown where requests may start the TPU
 */
export function serverFields(
  tpu: ITPU,
  { kind, request }: IServerInput,
  price: JSX.Element
): FieldList<IServerInput> {
  return [
    {
      name: 'kind',
      label: trans.__('What to serve'),
      kind: 'select',
      choices: [
        ['command', trans.__('A command')],
        ['vllm', trans.__('A model with vLLM')],
        ['ray', trans.__('A Ray Serve application')]
      ]
    },
    kind === 'command' && {
      name: 'command',
      label: trans.__('Command'),
      help: trans.__(
        'A shell command. It gets the port as $PORT, and should listen on 127.0.0.1 only.'
      ),
      placeholder: EXAMPLES.command,
      typed: TRIMMED
    },
    kind === 'vllm' && {
      name: 'vllm',
      label: trans.__('Model'),
      help: trans.__('A name on Hugging Face, or a folder on the host'),
      placeholder: EXAMPLES.vllm,
      typed: TRIMMED
    },
    kind === 'ray' && {
      name: 'ray',
      label: trans.__('Application'),
      help: trans.__('Its module and its name in it'),
      placeholder: EXAMPLES.ray,
      typed: TRIMMED
    },
    {
      name: 'port',
      label: trans.__('Port on the host'),
      kind: 'port',
      required: true
    },
    kind === 'command' && {
      name: 'health',
      label: trans.__('Health path (optional)'),
      help: trans.__(
        'The server is healthy when this path answers. Empty: any answer to /'
      ),
      placeholder: EXAMPLES.health,
      typed: TRIMMED
    },
    canStartOnRequest(tpu) && {
      name: 'request',
      label: trans.__('Requests start the TPU while it is stopped'),
      kind: 'check'
    },
    request && canStartOnRequest(tpu) && price
  ];
}

/** What few need. */
export function rareServerFields(
  tpu: ITPU,
  { kind, request }: IServerInput
): FieldList<IServerInput> {
  return [
    kind === 'vllm' && {
      name: 'more',
      label: trans.__('More arguments for vLLM'),
      typed: TRIMMED
    },
    { name: 'name', label: trans.__('Name'), typed: TRIMMED },
    tpu.hosts.length > 1 && {
      name: 'hosts',
      label: trans.__('Hosts'),
      help:
        kind === 'command'
          ? trans.__('all, 0, or 0,2-5. Empty: all')
          : trans.__('all, 0, or 0,2-5. Empty: 0'),
      typed: TRIMMED
    },
    tpu.environments.length > 0 && {
      name: 'environment',
      label: trans.__('Environment'),
      kind: 'select',
      choices: [
        ...tpu.environments.map(({ name }) => [name, name] as const),
        ['', trans.__('None')]
      ]
    },
    {
      name: 'cwd',
      label: trans.__('Folder on the hosts'),
      help: trans.__('Empty: the home folder'),
      kind: 'path',
      place: { tpu, folder: true },
      typed: TRIMMED
    },
    {
      name: 'localPort',
      label: trans.__('Local port'),
      help: trans.__('Empty: the same number if it is free'),
      kind: 'port'
    },
    kind !== 'ray' && {
      name: 'metrics',
      label: trans.__('Path of its Prometheus metrics'),
      placeholder: EXAMPLES.metrics,
      typed: OPTIONAL
    },
    !request && {
      name: 'restart',
      label: trans.__('Start it again after the TPU is restarted'),
      kind: 'check'
    }
  ];
}

/** What the server is asked for; the price is the one that was shown. */
/** The words of a text, as a shell reads them: quotes keep spaces. */
function shellWords(text: string): string[] {
  const words = text.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
  return words.map(word =>
    word.replace(
      /"([^"]*)"|'([^']*)'/g,
      (_, double, single) => double ?? single
    )
  );
}

export function serverRequest(
  tpu: ITPU,
  input: IServerInput
): IStartModelServer {
  const { kind } = input;
  const request = input.request && canStartOnRequest(tpu);
  return {
    command:
      kind === 'command'
        ? input.command
          ? ['sh', '-c', input.command]
          : []
        : kind === 'vllm'
          ? shellWords(input.more)
          : [],
    vllm: kind === 'vllm' ? input.vllm : '',
    ray: kind === 'ray' ? input.ray : '',
    port: Number(input.port),
    health: kind === 'command' ? input.health : '',
    metrics: kind === 'ray' ? null : input.metrics,
    name: input.name || (kind === 'command' ? input.command.slice(0, 60) : ''),
    hosts: input.hosts,
    cwd: input.cwd,
    environment: input.environment,
    local_port: input.localPort ? Number(input.localPort) : null,
    restart_with_tpu: input.restart,
    ...(request && { start_on_request: true, ...startRequest(tpu) })
  };
}

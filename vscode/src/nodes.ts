// What the tree shows, without VS Code: nodes with labels, and what a command on one is about.

import { portLabel } from '../../labextension/src/forwarding/portLabels';
import { guardLabel } from '../../labextension/src/guard/guardLabels';
import {
  attemptPlace,
  attemptState,
  huntOutlook
} from '../../labextension/src/hunts/huntLabels';
import { jobState } from '../../labextension/src/jobs/jobLabels';
import {
  holderLabel,
  kernelCountLabel,
  kernelName,
  kernelStateLabel
} from '../../labextension/src/kernels/kernelLabels';
import { Tone, trans } from '../../labextension/src/language/translation';
import { availableActions } from '../../labextension/src/model/availableActions';
import { isOver } from '../../labextension/src/model/jobs';
import {
  currentStep,
  operationTitle
} from '../../labextension/src/model/operationLabels';
import { isOf, Resources } from '../../labextension/src/model/resources';
import {
  linkLabel,
  maintenanceText,
  tpuStatus
} from '../../labextension/src/model/tpuLabels';
import { hourlyCost } from '../../labextension/src/money/costLabels';
import {
  IApp,
  IHunt,
  IJob,
  IKernel,
  IOperation,
  IProblem,
  ITPU,
  ITunnel
} from '../../labextension/src/rest/api';
import { keyOf } from '../../labextension/src/rest/tpuRef';
import type { State } from './session';

export interface INode {
  /** The same for the same thing, so that it stays open. */
  id: string;
  label: string;
  description?: string;
  /** Longer than one line. */
  tooltip?: string;
  icon: string;
  tone?: Tone;
  /** What can be done with it: ";connect;stop;". */
  context: string;
  open?: boolean;
  /** What a click runs, without "jupyterTpu.". */
  command?: string;
  children?: INode[];
  /** What a command on this node is about. */
  tpu?: ITPU;
  host?: number;
  kernel?: IKernel;
  job?: IJob;
  tunnel?: ITunnel;
  app?: IApp;
  operation?: IOperation;
  hunt?: IHunt;
}

/** All that there is: hunts and what is being created, then TPUs. */
export function rootNodes(
  resources: Resources,
  problem: IProblem | null,
  now = new Date()
): INode[] {
  const listed = (one: IOperation) =>
    resources.tpus.some(tpu => isOf(one, tpu));
  return [
    ...(problem ? [problemNode('list', problem)] : []),
    ...resources.operations
      .filter(one => isShown(one) && !listed(one))
      .map(one => operationNode(one, resources.hunts.get(one.id), now)),
    ...resources.tpus.map(tpu => tpuNode(tpu, resources, now))
  ];
}

/** What can be done where there is no server, below the sentence that says why. */
export function remedyNodes(state: State): INode[] {
  const remedy = (command: string, label: string, icon: string): INode => ({
    id: `remedy ${command}`,
    label,
    icon,
    context: ';remedy;',
    command
  });
  const install = (label: string) => remedy('install', label, 'cloud-download');
  const choose = remedy(
    'choosePython',
    trans.__('Choose Another Python'),
    'snake'
  );
  switch (state) {
    case 'missing':
      return [install(trans.__('Install It')), choose];
    case 'old':
      return [install(trans.__('Update It')), choose];
    case 'broken':
      return [choose];
    case 'failed':
      return [
        remedy('refresh', trans.__('Try Again'), 'refresh'),
        choose,
        remedy('useServer', trans.__('Use Another Jupyter Server'), 'server')
      ];
    default:
      return [];
  }
}

/** What was done, or cancelled by the user, is no news. */
function isShown({ state }: IOperation): boolean {
  return state === 'running' || state === 'failed';
}

function tpuNode(tpu: ITPU, resources: Resources, now: Date): INode {
  const key = keyOf(tpu);
  const operations = resources.operations.filter(one => isOf(one, tpu));
  const status = tpuStatus(tpu);
  const maintenance = maintenanceText(tpu);
  const price = tpu.state === 'READY' && tpu.cost.usd_per_hour !== 0;
  return {
    id: key,
    label: resources.nameOf(tpu),
    description: [
      status.label,
      tpu.type,
      tpu.emulated && trans.__('emulated'),
      price && hourlyCost(tpu.cost),
      tpu.guard && guardLabel(tpu.guard),
      tpu.kernels > 0 && kernelCountLabel(tpu.kernels)
    ]
      .filter(Boolean)
      .join(' · '),
    tooltip: [
      `${tpu.name} · ${tpu.zone}`,
      tpu.meaning,
      sentence(tpu.problem),
      tpu.advice
    ]
      .filter(Boolean)
      .join('\n'),
    icon: 'server-environment',
    tone: status.tone,
    context: `;is-tpu;${availableActions(tpu, resources.allOf(tpu)).join(';')};`,
    tpu,
    children: [
      ...(tpu.problem ? [problemNode(key, tpu.problem)] : []),
      ...(maintenance ? [problemNode(`${key} maintenance`, maintenance)] : []),
      ...operations
        .filter(one => isShown(one))
        .map(one => operationNode(one, resources.hunts.get(one.id), now)),
      ...tpu.hosts.map(host => hostNode(tpu, host.index)),
      ...resources.kernels(tpu).map(kernel => kernelNode(tpu, kernel)),
      ...resources.jobsOf(tpu).map(job => jobNode(tpu, job)),
      ...resources.tunnels(tpu).map(tunnel => tunnelNode(tpu, tunnel)),
      ...resources.apps(tpu).map(app => appNode(tpu, app))
    ]
  };
}

function hostNode(tpu: ITPU, index: number): INode {
  const host = tpu.hosts[index];
  const link = linkLabel(host);
  return {
    id: `${keyOf(tpu)} host ${index}`,
    label: trans.__('Host %1', index),
    description: [link, host.external_address || host.internal_address]
      .filter(Boolean)
      .join(' · '),
    tooltip: sentence(host.link.problem),
    icon: 'vm',
    tone: host.link.state === 'up' ? 'good' : link ? 'moving' : 'quiet',
    context: tpu.state === 'READY' ? ';is-host;terminal;' : ';is-host;',
    tpu,
    host: index
  };
}

/** A kernel's name, without what the Jupyter extension adds to that of its notebook. */
export function nameOf(kernel: IKernel): string {
  const hex = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
  const added = new RegExp(`-(jvsc-)?(${hex})+(?=\\.ipynb$)`);
  return kernelName(kernel).replace(added, '');
}

function kernelNode(tpu: ITPU, kernel: IKernel): INode {
  return {
    id: `${keyOf(tpu)} kernel ${kernel.id}`,
    label: nameOf(kernel),
    description: kernelStateLabel(kernel.state),
    tooltip: sentence(kernel.problem) || holderLabel(kernel),
    icon: 'notebook',
    tone: kernel.state === 'dead' ? 'bad' : 'good',
    context: ';is-kernel;',
    tpu,
    kernel
  };
}

function jobNode(tpu: ITPU, job: IJob): INode {
  const bad = ['failed', 'lost'].includes(job.state);
  return {
    id: `${keyOf(tpu)} job ${job.id}`,
    label: job.name,
    description: jobState(job),
    tooltip: job.command.join(' '),
    icon: 'run-all',
    tone: bad ? 'bad' : isOver(job) ? 'quiet' : 'moving',
    context: isOver(job) ? ';is-job;' : ';is-job;is-running;',
    tpu,
    job
  };
}

function tunnelNode(tpu: ITPU, tunnel: ITunnel): INode {
  const { host, local_port, port, problem, state } = tunnel;
  return {
    id: `${keyOf(tpu)} tunnel ${tunnel.id}`,
    label: trans.__('127.0.0.1:%1 → host %2:%3', local_port, host, port),
    description: portLabel(state),
    tooltip: sentence(problem),
    icon: 'plug',
    tone: state === 'open' ? 'good' : problem ? 'bad' : 'moving',
    context: ';is-tunnel;',
    tpu,
    tunnel
  };
}

function appNode(tpu: ITPU, app: IApp): INode {
  return {
    id: `${keyOf(tpu)} app ${app.id}`,
    label: app.name || trans.__('Port %1', app.port),
    description: portLabel(app.state),
    tooltip: sentence(app.problem) || app.logdir,
    icon: app.kind === 'tensorboard' ? 'graph-line' : 'globe',
    tone: app.state === 'open' ? 'good' : app.problem ? 'bad' : 'moving',
    context: ';is-app;',
    tpu,
    app
  };
}

function operationNode(
  operation: IOperation,
  hunt: IHunt | undefined,
  now: Date
): INode {
  const running = operation.state === 'running';
  return {
    id: `operation ${operation.id}`,
    label: operationTitle(operation),
    description: running
      ? (hunt?.message ?? currentStep(operation))
      : operation.problem?.message,
    tooltip: [
      sentence(operation.problem) || operation.message,
      ...(hunt && running ? huntOutlook(hunt, now) : [])
    ].join('\n'),
    icon: running ? (hunt ? 'search' : 'sync') : 'error',
    tone: running ? 'moving' : 'bad',
    context: `;is-operation;${running && operation.cancellable ? 'cancellable;' : ''}`,
    open: !!hunt,
    operation,
    hunt,
    children: hunt?.attempts
      .slice(-10)
      .reverse()
      .map(one => ({
        id: `operation ${operation.id} ${one.number}`,
        label: `${one.number}. ${attemptPlace(one)}`,
        description:
          one.state === 'failed' && one.problem
            ? one.problem.message
            : attemptState(one.state),
        tooltip: sentence(one.problem),
        icon:
          one.state === 'trying'
            ? 'sync'
            : one.state === 'found'
              ? 'pass'
              : 'circle-slash',
        context: ';attempt;'
      }))
  };
}

function problemNode(
  of: string,
  problem: { message: string; hint: string }
): INode {
  return {
    id: `problem ${of}`,
    label: problem.message,
    tooltip: `${problem.message}\n${problem.hint}`.trim(),
    icon: 'warning',
    tone: 'bad',
    context: ';problem;'
  };
}

function sentence(problem: IProblem | null): string {
  return problem ? `${problem.message} ${problem.hint}`.trim() : '';
}

/** What the status bar says: how many TPUs are there, and what is under way. */
export function summary(resources: Resources): { text: string; tone: Tone } {
  const { running, tpus } = resources;
  const hunting = running.some(one => one.kind === 'hunt');
  const ready = tpus.filter(tpu => tpu.state === 'READY').length;
  const bad = tpus.some(tpu => tpu.connection === 'needs-attention');
  const count = trans._n('%1 TPU', '%1 TPUs', ready);
  return {
    text: hunting ? trans.__('%1, hunting', count) : count,
    tone: bad ? 'bad' : running.length ? 'moving' : 'quiet'
  };
}

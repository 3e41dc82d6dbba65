// The parts of a TPU's page: kernels, environments, jobs, files, ports, load, hosts, costs, details.

import { closeIcon, stopIcon, terminalIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { ACTIONS, actionLabel } from '../actions/table';
import { ITPUProps, useActions } from '../actions/useActions';
import { hasLoad, Load } from '../chips/loadView';
import { Environment } from '../environments/environments';
import { FoundPythons } from '../environments/pythons';

import { SharedFolders } from '../files/shareList';
import { Projects } from '../files/syncView';
import { Ports } from '../forwarding/ports';
import { keep } from '../guard/guardDialog';
import { durationLabel, guardLabel } from '../guard/guardLabels';
import { Jobs } from '../jobs/jobList';
import { trace } from '../jobs/profileDialogs';
import {
  chipsLabel,
  holderLabel,
  hostStates,
  kernelName,
  kernelPlace,
  kernelStateLabel
} from '../kernels/kernelLabels';
import { facts, joined, problemLine } from '../language/text';
import { ago, clock, Tone, trans, usd } from '../language/translation';
import { whyNotStoppable } from '../model/availableActions';
import { IKnownLoad } from '../model/loads';
import { linkLabel, tierLabel } from '../model/tpuLabels';
import { Price } from '../money/price';
import { IHost, IKernel } from '../rest/api';
import { failureText } from '../rest/failureText';
import { HomeFolders } from '../sessions/homeFolders';
import { Sessions } from '../sessions/sessionList';
import { ModelServers } from '../serving/serverList';
import { chooseLogging } from '../setup/logging';
import { Alert, IconButton, Link } from '../ui/elements';
import { filesIcon, traceIcon } from '../ui/icons';
import {
  HOSTS_SHOWN,
  ListSection,
  Section,
  Term,
  Terms
} from '../ui/listSection';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { AgentAccess } from './agentAccess';

const KERNEL_TONES: { [state: string]: Tone } = {
  busy: 'moving',
  dead: 'bad',
  starting: 'moving'
};

/** The parts of a TPU's page below its map: the most used first, what is rarely needed last. */
export function Details({ tpu, load }: ITPUProps & { load: IKnownLoad }) {
  return (
    <div className="jp-tpu-Details">
      <Kernels tpu={tpu} />
      <Sessions tpu={tpu} />
      <Environments tpu={tpu} />
      <Jobs tpu={tpu} />
      <ModelServers tpu={tpu} />
      {tpu.state === 'READY' && <Files tpu={tpu} />}
      <Ports tpu={tpu} />
      {hasLoad(tpu) && <Load tpu={tpu} known={load} />}
      <Hosts tpu={tpu} />
      {!tpu.attached && <Costs tpu={tpu} />}
      <Section id="about" title={trans.__('Details')}>
        {tpu.attached ? <Attached tpu={tpu} /> : <About tpu={tpu} />}
      </Section>
    </div>
  );
}

function Kernels({ tpu }: ITPUProps) {
  const { model } = useActions();
  const failure = tpu.connection === 'connected' && model.kernelsFailure(tpu);
  return (
    <ListSection
      id="kernels"
      title={trans.__('Kernels')}
      none={!failure && trans.__('Notebooks and consoles that run here')}
      above={failure && <Alert {...failureText(failure)} />}
      items={model.kernels(tpu)}
      sorts={[
        ['name', trans.__('Name'), kernel => kernelName(kernel)],
        ['state', trans.__('State'), ({ state }) => kernelStateLabel(state)],
        ['host', trans.__('Host'), ({ host }) => host]
      ]}
      row={kernel => <Kernel key={kernel.id} kernel={kernel} tpu={tpu} />}
    />
  );
}

function Environments({ tpu }: ITPUProps) {
  const actions = useActions();
  const ready = tpu.state === 'READY';
  if (!ready && tpu.environments.length === 0) {
    return null;
  }
  return (
    <ListSection
      id="environments"
      title={trans.__('Environments')}
      add={{
        label: trans.__('New environment on %1', tpu.name),
        disabled: !actions.available(tpu).includes('environment'),
        run: () => {
          actions.openPanel();
          return actions.act('environment', tpu);
        }
      }}
      items={tpu.environments}
      sorts={[
        ['name', trans.__('Name'), ({ name }) => name],
        ['python', trans.__('Python'), ({ python }) => python ?? ''],
        ['jax', trans.__('JAX'), ({ jax }) => jax ?? '']
      ]}
      row={environment => (
        <Environment
          key={environment.name}
          environment={environment}
          tpu={tpu}
        />
      )}
    >
      {ready && <FoundPythons tpu={tpu} />}
    </ListSection>
  );
}

/** What is synced and shared, and what can be done with files. */
function Files({ tpu }: ITPUProps) {
  const actions = useActions();
  const able = actions.available(tpu);
  const offered = (['browse', 'copy', 'sync', 'share'] as const).filter(one =>
    able.includes(one)
  );
  return (
    <Section
      id="files"
      title={trans.__('Files')}
      aside={
        <span className="jp-tpu-Row-buttons">
          {offered.map(action => (
            <IconButton
              key={action}
              icon={ACTIONS[action].icon}
              label={actionLabel(action)}
              onClick={() => void actions.act(action, tpu)}
            />
          ))}
        </span>
      }
    >
      <Projects tpu={tpu} />
      <HomeFolders tpu={tpu} />
      <SharedFolders tpu={tpu} />
    </Section>
  );
}

/** What it costs, and when it stops by itself. */
function Costs({ tpu }: ITPUProps) {
  const { cost, run_ends, run_for } = tpu;
  const since = ago(cost.since, Date.now());
  const soFar =
    cost.usd === null
      ? trans.__('Unknown')
      : trans.__('About %1', usd(cost.usd));
  const terms: (Term | false | '')[] = [
    [trans.__('Price'), <Price cost={cost} tier={tpu.tier} />],
    !tpu.emulated && [trans.__('Cost so far'), soFar],
    since && [trans.__('Ready since'), since, cost.since],
    run_for !== null && [
      trans.__('Runs for'),
      run_ends
        ? trans.__(
            '%1, until about %2. Google then deletes it.',
            durationLabel(run_for),
            clock(run_ends)
          )
        : durationLabel(run_for)
    ],
    tpu.state === 'READY' && [trans.__('Guard'), <Guard tpu={tpu} />]
  ];
  return (
    <Section id="costs" title={trans.__('Costs')}>
      <Terms terms={terms} />
      <AgentAccess tpu={tpu} />
    </Section>
  );
}

function About({ tpu }: ITPUProps) {
  const actions = useActions();
  const created = ago(tpu.created, Date.now());
  const runtime = (
    <span title={trans.__('Runtime version')}>{trans.__('Runtime')}</span>
  );
  const logs = (
    <Link
      label={trans.__('Cloud Logging of %1…', tpu.name)}
      onClick={() => void chooseLogging(tpu, actions.model)}
    >
      {trans.__('Cloud Logging…')}
    </Link>
  );
  return (
    <Terms
      terms={[
        [runtime, tpu.version, tpu.version],
        [trans.__('Tier'), tierLabel(tpu.tier)],
        [
          trans.__('Made by'),
          tpu.api === 'compute'
            ? trans.__('Compute Engine')
            : trans.__('Cloud TPU API')
        ],
        created && [trans.__('Created'), created, tpu.created],
        [trans.__('Project'), tpu.project, tpu.project],
        [trans.__('Logs'), logs]
      ]}
    />
  );
}

/** What there is to know about machines that are reached by SSH alone. */
function Attached({ tpu }: ITPUProps) {
  const aliases = (tpu.details.ssh ?? []) as string[];
  const ways = aliases.map(alias => <div key={alias}>{`ssh ${alias}`}</div>);
  return (
    <Terms
      terms={[
        [trans.__('Reached by'), ways],
        [trans.__('Attached'), ago(tpu.created, Date.now()), tpu.created]
      ]}
    />
  );
}

/** When the TPU stops or deletes itself. */
function Guard({ tpu }: ITPUProps) {
  const actions = useActions();
  const { guard } = tpu;
  const stops = whyNotStoppable(tpu) === null;
  return (
    <>
      {guard && `${guardLabel(guard)} `}
      {guard?.ends && (
        <>
          <Link onClick={() => void keep(actions, tpu)}>
            {trans.__('Keep it for an hour')}
          </Link>{' '}
        </>
      )}
      <Link
        label={
          stops
            ? trans.__('Stop %1 automatically…', tpu.name)
            : trans.__('Delete %1 automatically…', tpu.name)
        }
        onClick={() => void actions.act('guard', tpu)}
      >
        {guard
          ? trans.__('Change…')
          : stops
            ? trans.__('Stop automatically…')
            : trans.__('Delete automatically…')}
      </Link>{' '}
      {joined(
        ' ',
        guard?.google_deletes &&
          trans.__(
            'Google deletes it at %1, even if the guard does not run.',
            clock(guard.google_deletes)
          ),
        problemLine(guard?.google_problem),
        guard?.problem &&
          trans.__(
            'The TPU can’t stop or delete itself. %1 %2',
            guard.problem.message,
            guard.problem.hint
          )
      )}
    </>
  );
}

function Hosts({ tpu }: ITPUProps) {
  if (tpu.hosts.length === 0) {
    return null;
  }
  const up = tpu.hosts.filter(host => host.link.state === 'up').length;
  return (
    <ListSection
      id="hosts"
      title={trans.__('Hosts')}
      aside={
        tpu.connection !== 'disconnected' && (
          <span className="jp-tpu-Details-count">
            {trans.__('%1 of %2 connected', up, tpu.hosts.length)}
          </span>
        )
      }
      items={tpu.hosts}
      limit={HOSTS_SHOWN}
      sorts={[
        ['number', trans.__('Number'), ({ index }) => index],
        ['address', trans.__('Address'), addressOf],
        // What is not connected comes first.
        ['state', trans.__('State'), host => linkLabel(host) || '~']
      ]}
      row={host => <Host key={host.index} host={host} tpu={tpu} />}
    />
  );
}

function addressOf(host: IHost): string {
  return host.external_address || host.internal_address;
}

function Host({ host, tpu }: ITPUProps & { host: IHost }) {
  const actions = useActions();
  const { index, link } = host;
  return (
    <Row
      name={`${index} · ${addressOf(host)}`}
      title={facts(host.external_address, host.internal_address)}
      state={{
        label: linkLabel(host),
        tone: link.state === 'needs-attention' ? 'bad' : 'moving',
        title: link.since
      }}
      buttons={
        tpu.state === 'READY' && (
          <>
            <IconButton
              icon={terminalIcon}
              label={trans.__('Open a terminal on host %1', index)}
              onClick={() => void actions.open.terminal(tpu, index)}
            />
            <IconButton
              icon={filesIcon}
              label={trans.__('Browse the files of host %1', index)}
              disabled={!actions.offers('browse')}
              onClick={() => void actions.open.files(tpu, index)}
            />
          </>
        )
      }
      more={problemLine(link.problem)}
    />
  );
}

function Kernel({ kernel, tpu }: ITPUProps & { kernel: IKernel }) {
  const actions = useActions();
  const here = useStore(actions.serverKernels);
  const name = kernelName(kernel);
  return (
    <Row
      name={
        <>
          {name}
          {tpu.hosts.length > 1 && <em> {kernelPlace(kernel)}</em>}
          {kernel.booked.length > 0 && <em> {chipsLabel(kernel.booked)}</em>}
        </>
      }
      title={kernel.notebook || kernel.id}
      state={{
        label: kernelStateLabel(kernel.state),
        tone: KERNEL_TONES[kernel.state] ?? 'quiet'
      }}
      buttons={
        <>
          <IconButton
            icon={traceIcon}
            label={trans.__('Trace %1', name)}
            disabled={kernel.state === 'dead' || !actions.offers('profile')}
            onClick={() => void trace(tpu, actions, kernel)}
          />
          <IconButton
            icon={kernel.problem ? closeIcon : stopIcon}
            label={
              kernel.problem
                ? trans.__('Dismiss %1', name)
                : trans.__('Shut down %1', name)
            }
            onClick={() => void actions.kernels.shutDown(tpu, kernel)}
          />
        </>
      }
      more={joined(' ', problemLine(kernel.problem), hostStates(kernel))}
    >
      {kernel.state !== 'dead' && !here.has(kernel.id) && (
        <span className="jp-tpu-Row-more">
          {holderLabel(kernel)}{' '}
          <Link
            label={trans.__('Take over %1…', name)}
            onClick={() => void actions.kernels.takeOver(tpu, kernel)}
          >
            {trans.__('Take over…')}
          </Link>
        </span>
      )}
    </Row>
  );
}

// The parts of a TPU's page: kernels, environments, jobs, files, ports, load, hosts, costs, details.

import {
  addIcon,
  closeIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import { ITPUProps } from '../actions/actions';
import { ACTIONS, actionLabel } from '../actions/table';
import { IKnownLoad } from '../chips/loads';
import { hasLoad, Load } from '../chips/loadView';
import { Environment } from '../environments/environments';
import { FoundPythons } from '../environments/pythons';
import { SharedFolders } from '../files/shareList';
import { Projects } from '../files/syncView';
import { Ports } from '../forwarding/ports';
import { durationLabel, guardLabel } from '../guard/guardLabels';
import { Jobs } from '../jobs/jobList';
import {
  chipsLabel,
  holderLabel,
  hostStates,
  kernelName,
  kernelPlace,
  kernelStateLabel
} from '../kernels/kernelLabels';
import { whyNotStoppable } from '../model/availableActions';
import { keyOf } from '../model/resources';
import { usd } from '../money/costLabels';
import { Price } from '../money/price';
import { linkLabel, tierLabel } from '../panel/tpuLabels';
import { IHost, IKernel, ITPU } from '../rest/api';
import {
  Alert,
  HOSTS_SHOWN,
  IconButton,
  Link,
  Section,
  ShowAll
} from '../ui/elements';
import { failureText } from '../ui/failures';
import { filesIcon, traceIcon } from '../ui/icons';
import { Row, SortableList } from '../ui/rows';
import { useStore } from '../ui/store';
import { ago, clock, Tone, trans } from '../ui/translation';
import { AgentAccess } from './agentAccess';

const KERNEL_TONES: { [state: string]: Tone } = {
  busy: 'moving',
  dead: 'bad',
  starting: 'moving'
};

/** The parts of a TPU's page below its map: the most used first, what is rarely needed last. */
export function Details(props: ITPUProps & { load: IKnownLoad }): JSX.Element {
  const { tpu, load, actions } = props;
  const ready = tpu.state === 'READY';
  return (
    <div className="jp-tpu-Details">
      <Kernels tpu={tpu} actions={actions} />
      <Environments tpu={tpu} actions={actions} />
      <Jobs tpu={tpu} actions={actions} />
      {ready && <Files tpu={tpu} actions={actions} />}
      <Ports tpu={tpu} actions={actions} />
      {hasLoad(tpu) && <Load tpu={tpu} known={load} actions={actions} />}
      <Hosts tpu={tpu} actions={actions} />
      {!tpu.attached && <Costs tpu={tpu} actions={actions} />}
      <Section id="about" view={actions.view} title={trans.__('Details')}>
        <dl>
          {tpu.attached ? (
            <Attached tpu={tpu} />
          ) : (
            <About tpu={tpu} actions={actions} />
          )}
        </dl>
      </Section>
    </div>
  );
}

function Kernels({ tpu, actions }: ITPUProps): JSX.Element {
  const { model } = actions;
  const kernels = model.kernels(tpu);
  const failure = tpu.connection === 'connected' && model.kernelsFailure(tpu);
  return (
    <Section
      id="kernels"
      view={actions.view}
      title={trans.__('Kernels')}
      none={
        kernels.length === 0 &&
        !failure &&
        trans.__('Notebooks and consoles that run here')
      }
    >
      {failure && <Alert {...failureText(failure)} />}
      <SortableList
        id="kernels"
        view={actions.view}
        items={kernels}
        sorts={[
          ['name', trans.__('Name'), kernel => kernelName(kernel)],
          ['state', trans.__('State'), ({ state }) => kernelStateLabel(state)],
          ['host', trans.__('Host'), ({ host }) => host]
        ]}
      >
        {kernel => (
          <Kernel key={kernel.id} kernel={kernel} tpu={tpu} actions={actions} />
        )}
      </SortableList>
    </Section>
  );
}

function Environments({ tpu, actions }: ITPUProps): JSX.Element | null {
  const ready = tpu.state === 'READY';
  if (!ready && tpu.environments.length === 0) {
    return null;
  }
  return (
    <Section
      id="environments"
      view={actions.view}
      title={trans.__('Environments')}
      aside={
        <IconButton
          icon={addIcon}
          label={trans.__('New environment on %1', tpu.name)}
          disabled={!actions.available(tpu).includes('environment')}
          onClick={() => {
            actions.openPanel();
            void actions.act('environment', tpu);
          }}
        />
      }
    >
      <SortableList
        id="environments"
        view={actions.view}
        items={tpu.environments}
        sorts={[
          ['name', trans.__('Name'), ({ name }) => name],
          ['python', trans.__('Python'), ({ python }) => python ?? ''],
          ['jax', trans.__('JAX'), ({ jax }) => jax ?? '']
        ]}
      >
        {environment => (
          <Environment
            key={environment.name}
            environment={environment}
            tpu={tpu}
            actions={actions}
          />
        )}
      </SortableList>
      {ready && <FoundPythons tpu={tpu} actions={actions} />}
    </Section>
  );
}

/** What is synced and shared, and what can be done with files. */
function Files({ tpu, actions }: ITPUProps): JSX.Element {
  const able = actions.available(tpu);
  const offered = (['browse', 'copy', 'sync', 'share'] as const).filter(one =>
    able.includes(one)
  );
  return (
    <Section
      id="files"
      view={actions.view}
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
      <Projects tpu={tpu} actions={actions} />
      <SharedFolders tpu={tpu} actions={actions} />
    </Section>
  );
}

/** What it costs, and when it stops by itself. */
function Costs({ tpu, actions }: ITPUProps): JSX.Element {
  const since = ago(tpu.cost.since, Date.now());
  return (
    <Section id="costs" view={actions.view} title={trans.__('Costs')}>
      <dl>
        <dt>{trans.__('Price')}</dt>
        <dd className="jp-mod-wrap">
          <Price cost={tpu.cost} tier={tpu.tier} />
        </dd>
        {!tpu.emulated && (
          <>
            <dt>{trans.__('Cost so far')}</dt>
            <dd>
              {tpu.cost.usd === null
                ? trans.__('Unknown')
                : trans.__('About %1', usd(tpu.cost.usd))}
            </dd>
          </>
        )}
        {since && (
          <>
            <dt>{trans.__('Ready since')}</dt>
            <dd title={tpu.cost.since}>{since}</dd>
          </>
        )}
        {tpu.run_for !== null && (
          <>
            <dt>{trans.__('Runs for')}</dt>
            <dd className="jp-mod-wrap">
              {tpu.run_ends
                ? trans.__(
                    '%1, until about %2. Google then deletes it.',
                    durationLabel(tpu.run_for),
                    clock(tpu.run_ends)
                  )
                : durationLabel(tpu.run_for)}
            </dd>
          </>
        )}
        {tpu.state === 'READY' && <Guard tpu={tpu} actions={actions} />}
        <AgentAccess tpu={tpu} actions={actions} />
      </dl>
    </Section>
  );
}

function About({ tpu, actions }: ITPUProps): JSX.Element {
  const created = ago(tpu.created, Date.now());
  return (
    <>
      <dt title={trans.__('Runtime version')}>{trans.__('Runtime')}</dt>
      <dd title={tpu.version}>{tpu.version}</dd>
      <dt>{trans.__('Tier')}</dt>
      <dd>{tierLabel(tpu.tier)}</dd>
      <dt>{trans.__('Made by')}</dt>
      <dd>
        {tpu.api === 'compute'
          ? trans.__('Compute Engine')
          : trans.__('Cloud TPU API')}
      </dd>
      {created && (
        <>
          <dt>{trans.__('Created')}</dt>
          <dd title={tpu.created}>{created}</dd>
        </>
      )}
      <dt>{trans.__('Project')}</dt>
      <dd title={tpu.project}>{tpu.project}</dd>
      <dt>{trans.__('Logs')}</dt>
      <dd>
        <Link
          label={trans.__('Cloud Logging of %1…', tpu.name)}
          onClick={() => void actions.chooseLogging(tpu)}
        >
          {trans.__('Cloud Logging…')}
        </Link>
      </dd>
    </>
  );
}

/** What there is to know about machines that are reached by SSH alone. */
function Attached({ tpu }: { tpu: ITPU }): JSX.Element {
  const aliases = (tpu.details.ssh ?? []) as string[];
  return (
    <>
      <dt>{trans.__('Reached by')}</dt>
      <dd className="jp-mod-wrap">
        {aliases.map(alias => (
          <div key={alias}>{`ssh ${alias}`}</div>
        ))}
      </dd>
      <dt>{trans.__('Attached')}</dt>
      <dd title={tpu.created}>{ago(tpu.created, Date.now())}</dd>
    </>
  );
}

/** When the TPU stops or deletes itself. */
function Guard({ tpu, actions }: ITPUProps): JSX.Element {
  const { guard } = tpu;
  const stops = whyNotStoppable(tpu) === null;
  return (
    <>
      <dt>{trans.__('Guard')}</dt>
      <dd className="jp-mod-wrap">
        {guard && `${guardLabel(guard)} `}
        {guard?.ends && (
          <>
            <Link
              label={trans.__('Keep it for an hour')}
              onClick={() => void actions.keep(tpu)}
            >
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
        </Link>
        {guard?.google_deletes && (
          <>
            {' '}
            {trans.__(
              'Google deletes it at %1, even if the guard does not run.',
              clock(guard.google_deletes)
            )}
          </>
        )}
        {guard?.google_problem && (
          <> {`${guard.google_problem.message} ${guard.google_problem.hint}`}</>
        )}
        {guard?.problem && (
          <>
            {' '}
            {trans.__(
              'The TPU can’t stop or delete itself. %1 %2',
              guard.problem.message,
              guard.problem.hint
            )}
          </>
        )}
      </dd>
    </>
  );
}

function Hosts({ tpu, actions }: ITPUProps): JSX.Element | null {
  const { view } = actions;
  const all = `${keyOf(tpu)}#all-hosts`;
  const hosts = view.isOpen(all) ? tpu.hosts : tpu.hosts.slice(0, HOSTS_SHOWN);
  if (tpu.hosts.length === 0) {
    return null;
  }
  const up = tpu.hosts.filter(host => host.link.state === 'up').length;
  return (
    <Section
      id="hosts"
      view={view}
      title={trans.__('Hosts')}
      aside={
        tpu.connection !== 'disconnected' && (
          <span className="jp-tpu-Details-count">
            {trans.__('%1 of %2 connected', up, tpu.hosts.length)}
          </span>
        )
      }
    >
      <SortableList
        id="hosts"
        view={view}
        items={hosts}
        sorts={[
          ['number', trans.__('Number'), ({ index }) => index],
          [
            'address',
            trans.__('Address'),
            host => host.external_address || host.internal_address
          ],
          // What is not connected comes first.
          ['state', trans.__('State'), host => linkLabel(host) || '~']
        ]}
      >
        {host => (
          <Host key={host.index} host={host} tpu={tpu} actions={actions} />
        )}
      </SortableList>
      {tpu.hosts.length > HOSTS_SHOWN && (
        <ShowAll id={all} view={view} count={tpu.hosts.length} />
      )}
    </Section>
  );
}

function Host(props: ITPUProps & { host: IHost }): JSX.Element {
  const { actions, host, tpu } = props;
  const { problem } = host.link;
  const label = linkLabel(host);
  return (
    <Row
      name={`${host.index} · ${host.external_address || host.internal_address}`}
      title={[host.external_address, host.internal_address]
        .filter(Boolean)
        .join(' · ')}
      state={{
        label,
        tone: host.link.state === 'needs-attention' ? 'bad' : 'moving',
        title: host.link.since
      }}
      buttons={
        tpu.state === 'READY' && (
          <>
            <IconButton
              icon={terminalIcon}
              label={trans.__('Open a terminal on host %1', host.index)}
              onClick={() => void actions.open.terminal(tpu, host.index)}
            />
            <IconButton
              icon={filesIcon}
              label={trans.__('Browse the files of host %1', host.index)}
              disabled={!actions.offers('browse')}
              onClick={() => void actions.open.files(tpu, host.index)}
            />
          </>
        )
      }
      more={problem && `${problem.message} ${problem.hint}`}
    />
  );
}

function Kernel(props: ITPUProps & { kernel: IKernel }): JSX.Element {
  const { kernel, tpu, actions } = props;
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
            onClick={() => void actions.open.profile(tpu, kernel)}
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
      more={[
        kernel.problem && `${kernel.problem.message} ${kernel.problem.hint}`,
        hostStates(kernel)
      ]
        .filter(Boolean)
        .join(' ')}
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

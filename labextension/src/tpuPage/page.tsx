// The page of one TPU, in the main area: what needs attention, a map of its slice, and its parts.

import { MainAreaWidget } from '@jupyterlab/apputils';
import {
  ellipsesIcon,
  ReactWidget,
  refreshIcon
} from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import React, { useEffect, useRef } from 'react';

import { IPanelActions } from '../actions/panelActions';
import { ActionsProvider, ITPUProps, useActions } from '../actions/useActions';
import { dutyLabel, latest, memoryLabel, together } from '../chips/loadLabels';
import { useLoad } from '../chips/loadView';
import {
  hostStates,
  kernelCountLabel,
  kernelName
} from '../kernels/kernelLabels';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { primaryAction } from '../model/availableActions';
import { IKnownLoad } from '../model/loads';
import { operationTitle } from '../model/operationLabels';
import { notebookDevices, tpuStatus } from '../model/tpuLabels';
import { priceSource, tpuCost } from '../money/costLabels';
import { Operation } from '../operations/operationView';
import { Alerts, isUrgent, WhyEnded } from '../panel/alerts';
import { Emulated, MainButton } from '../panel/tpu';
import { IHostLoad, ITPU } from '../rest/api';
import { keyOf, refOf } from '../rest/tpuRef';
import { EmptyState, IconButton, StateLabel, TextButton } from '../ui/elements';
import { createTab } from '../ui/tabs';
import { useStore } from '../ui/useStore';
import { Shade } from '../ui/viewState';
import { Details } from './details';
import { KernelLegend, SliceMap } from './sliceMap';

/** The tab with the page of a TPU; *tpu*: its key. */
export function pageTab(
  tpu: string,
  actions: IPanelActions
): MainAreaWidget<TPUPage> {
  const { name, zone } = refOf(tpu);
  return createTab(new TPUPage(tpu, actions), {
    id: `jp-tpu-page-${tpu.replace('/', '-')}`,
    label: actions.model.nameOf({ name, zone }),
    caption: trans.__('TPU %1 in %2', name, zone)
  });
}

export class TPUPage extends ReactWidget {
  /** *tpu*: its key. */
  constructor(
    readonly tpu: string,
    private _actions: IPanelActions
  ) {
    super();
    this.addClass('jp-tpu-Panel');
    this.addClass('jp-tpu-Page');
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.update();
  }

  protected render(): JSX.Element {
    return (
      <ActionsProvider actions={this._actions}>
        <Page id={this.tpu} seen={this.isVisible} />
      </ActionsProvider>
    );
  }
}

/** seen: whether it can be seen; else it is not kept up to date. */
function Page({ id, seen }: { id: string; seen: boolean }) {
  const actions = useActions();
  const model = useStore(actions.model, seen);
  useStore(actions.view, seen);
  const known = useRef<ITPU>();
  const tpu = model.tpu(id);
  known.current = tpu ?? known.current;
  if (tpu) {
    return <Known tpu={tpu} seen={seen} />;
  }
  if (model.phase === 'loading') {
    return <EmptyState busy title={trans.__('Loading TPUs…')} />;
  }
  const { name, zone } = refOf(id);
  const last = model
    .operationsOf({ name, zone })
    .find(one => one.kind === 'delete' || one.kind === 'detach');
  return (
    <EmptyState
      title={
        last
          ? operationTitle(last)
          : trans.__('There is no TPU %1 in %2', name, zone)
      }
      text={
        known.current &&
        trans.__('It was a %1: %2.', known.current.type, known.current.meaning)
      }
    >
      <TextButton onClick={() => actions.openPanel()}>
        {trans.__('Show All TPUs')}
      </TextButton>
      <TextButton onClick={() => void actions.openPage('usage')}>
        {trans.__('TPU Usage…')}
      </TextButton>
    </EmptyState>
  );
}

function Known({ seen, tpu }: ITPUProps & { seen: boolean }) {
  const actions = useActions();
  const { model } = actions;
  const isSeen = useRef(seen);
  isSeen.current = seen;
  const load = useLoad(tpu, () => isSeen.current);
  const environments = tpu.environments.length > 0;
  useEffect(() => {
    if (seen && environments) {
      void actions.kernels.load(tpu);
    }
  }, [seen, tpu.id, environments, tpu.kernels]);
  const able = actions.available(tpu);
  const main = primaryAction(able);
  const status = tpuStatus(tpu);
  const cost = tpuCost(tpu);
  const type = model.catalog?.types.find(one => one.name === tpu.type);
  return (
    <>
      <div className="jp-tpu-Page-head">
        <h2 title={keyOf(tpu)}>{model.nameOf(tpu)}</h2>
        {tpu.emulated && <Emulated />}
        <StateLabel tone={status.tone}>{status.label}</StateLabel>
        {tpu.kernels > 0 && <span>{kernelCountLabel(tpu.kernels)}</span>}
        <span className="jp-tpu-Page-buttons">
          {main && <MainButton action={main} tpu={tpu} />}
          <IconButton
            icon={refreshIcon}
            label={trans.__('Refresh')}
            onClick={() => void model.refresh()}
          />
          <IconButton
            icon={ellipsesIcon}
            label={trans.__('Actions for %1', tpu.name)}
            hasPopup
            disabled={able.length === 0}
            onClick={event => void actions.openMenu(event.currentTarget, tpu)}
          />
        </span>
      </div>
      <p className="jp-tpu-Page-facts">
        {facts((!tpu.attached || tpu.chips) && tpu.type, tpu.zone, tpu.meaning)}
        {type && tpu.hosts.length > 1 && (
          <>
            <br />
            {notebookDevices(type)}
          </>
        )}
        {cost && (
          <>
            <br />
            <span title={priceSource(tpu.cost, tpu.tier)}>{cost}</span>
          </>
        )}
      </p>
      {tpu.cloud_state === 'PENDING' && <p>{tpu.advice}</p>}
      <WhyEnded tpu={tpu} />
      <Alerts tpu={tpu} explained />
      {model
        .operationsOf(tpu)
        .filter(isUrgent)
        .map(operation => (
          <Operation key={operation.id} operation={operation} />
        ))}
      {tpu.hosts.length > 0 && tpu.chips > 0 && (
        <Slice tpu={tpu} load={load} topology={type?.topology ?? ''} />
      )}
      <Details tpu={tpu} load={load} />
    </>
  );
}

/** Always the same: the map is not drawn again for it. */
const NO_LOAD: IHostLoad[] = [];

/** The map, with the choice of what colours it. */
function Slice(
  props: ITPUProps & {
    load: IKnownLoad;
    topology: string;
  }
) {
  const { load, topology, tpu } = props;
  const { model, view } = useActions();
  const kernels = model.kernels(tpu);
  const hosts = load.load?.hosts ?? NO_LOAD;
  const { shade } = view;
  return (
    <section className="jp-tpu-Slice" aria-label={trans.__('Map of the slice')}>
      <SliceMap
        tpu={tpu}
        topology={topology}
        load={hosts}
        kernels={kernels}
        shade={shade}
      />
      <div className="jp-tpu-Slice-side">
        <p>
          {topology && (
            <>
              {trans.__('Topology %1', topology)}
              <br />
            </>
          )}
          {linksText(tpu)}
          <br />
          {totals(load)}
        </p>
        {kernels
          .filter(kernel => hostStates(kernel))
          .map(kernel => (
            <p key={kernel.id} role="status">
              {trans.__('%1: %2', kernelName(kernel), hostStates(kernel))}
            </p>
          ))}
        <div
          className="jp-tpu-Slice-shades"
          role="group"
          aria-label={trans.__('Color chips by')}
        >
          {shades().map(([value, label]) => (
            <button
              key={value}
              type="button"
              className="jp-tpu-Link"
              aria-pressed={value === shade}
              onClick={() => view.colorBy(value)}
            >
              {label}
            </button>
          ))}
        </div>
        {shade === 'kernel' ? (
          kernels.length > 0 ? (
            <KernelLegend kernels={kernels} />
          ) : (
            <p>{trans.__('No kernel uses the chips.')}</p>
          )
        ) : (
          <span
            className={`jp-tpu-Map-scale jp-mod-${shade}`}
            aria-hidden="true"
          >
            0 % <i /> 100 %
          </span>
        )}
      </div>
    </section>
  );
}

function shades(): [Shade, string][] {
  return [
    ['duty', trans.__('Duty cycle')],
    ['memory', trans.__('HBM')],
    ['kernel', trans.__('Kernel')]
  ];
}

function linksText(tpu: ITPU): JSX.Element | string {
  const up = tpu.hosts.filter(host => host.link.state === 'up').length;
  const bad = tpu.hosts.filter(
    host => !['up', 'down'].includes(host.link.state)
  );
  const text = trans.__('%1 of %2 hosts connected', up, tpu.hosts.length);
  return bad.length === 0
    ? text
    : trans.__(
        '%1; not host %2',
        text,
        bad.map(({ index }) => index).join(', ')
      );
}

/** What all chips have together. */
function totals({ load }: IKnownLoad): string {
  const chips = (load?.hosts ?? []).flatMap(host => latest(host)?.chips ?? []);
  const all = together(chips);
  return facts(dutyLabel(all), memoryLabel(all));
}

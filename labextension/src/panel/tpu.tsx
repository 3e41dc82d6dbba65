// One TPU in the list: a row that is rendered again only when it would look different.

import { addIcon, ellipsesIcon } from '@jupyterlab/ui-components';
import React, { memo, useEffect, useState } from 'react';

import { ACTIONS, actionLabel } from '../actions/table';
import { ITPUProps, useActions } from '../actions/useActions';
import { dutyLabel, isIdle, latest, together } from '../chips/loadLabels';
import { Bar, hasLoad, useLoad } from '../chips/loadView';
import { endLabel, guardLabel, runEndLabel } from '../guard/guardLabels';
import { kernelCountLabel } from '../kernels/kernelLabels';
import { trans } from '../language/translation';
import { Action, primaryAction } from '../model/availableActions';
import { EVERY_IN_LIST } from '../model/loads';
import { tpuStatus } from '../model/tpuLabels';
import { costNow, priceSource, tpuCost } from '../money/costLabels';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { IconButton, StateLabel, TextButton } from '../ui/elements';

interface IProps {
  tpu: ITPU;
  /** With its zone where another one has the same. */
  name: string;
  /** What can be done with it now. */
  able: Action[];
  /** Whether it is the only thing that is emulated, so that its row has to say so. */
  marked: boolean;
}

export const TPU = memo(
  Row,
  (before, now) =>
    before.tpu === now.tpu &&
    before.name === now.name &&
    before.marked === now.marked &&
    before.able.join() === now.able.join()
);

function Row({ tpu, able, marked, name }: IProps) {
  const actions = useActions();
  const main = primaryAction(able);
  const status = tpuStatus(tpu);
  const cost = costNow(tpu);
  const type = tpu.attached && !tpu.chips ? '' : `${tpu.type} · `;
  const Zone = name === tpu.name ? 'span' : 'strong';
  return (
    <li className="jp-tpu-TPU" aria-label={name} data-tpu={keyOf(tpu)}>
      <div className="jp-tpu-TPU-head">
        <button
          type="button"
          className="jp-tpu-TPU-name"
          aria-label={name}
          title={keyOf(tpu)}
          onClick={() => void actions.open.tpu(tpu)}
        >
          {tpu.name}
        </button>
        {marked && <Emulated />}
        {main && <MainButton action={main} tpu={tpu} short />}
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('Actions for %1', name)}
          hasPopup
          disabled={able.length === 0}
          onClick={event => void actions.openMenu(event.currentTarget, tpu)}
        />
      </div>
      <div
        className="jp-tpu-TPU-place"
        title={`${type}${tpu.zone}\n${tpu.meaning}`}
      >
        {type}
        <Zone>{tpu.zone}</Zone>
      </div>
      <div className="jp-tpu-TPU-states">
        <StateLabel tone={status.tone}>{status.label}</StateLabel>
        {tpu.kernels > 0 && (
          <span className="jp-tpu-State">{kernelCountLabel(tpu.kernels)}</span>
        )}
        {cost && (
          <span
            className="jp-tpu-State"
            title={`${tpuCost(tpu)}\n${priceSource(tpu.cost, tpu.tier)}`}
          >
            {cost}
          </span>
        )}
        {(tpu.guard || tpu.run_ends) && <End tpu={tpu} />}
        {hasLoad(tpu) && <LoadBar tpu={tpu} />}
      </div>
      {tpu.state !== 'READY' && !tpu.problem && tpu.advice && (
        <div className="jp-tpu-TPU-advice">{tpu.advice}</div>
      )}
    </li>
  );
}

/** How long the time that is left is shown before it is reckoned again; milliseconds. */
const MINUTE = 60_000;

/** When it stops or deletes itself. */
function End({ tpu }: ITPUProps) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), MINUTE);
    return () => clearInterval(timer);
  }, [tpu]);
  const { guard, run_ends: ends } = tpu;
  const title = guard ? guardLabel(guard) : runEndLabel(ends);
  return (
    <span className="jp-tpu-State" title={title}>
      {endLabel(tpu, now)}
    </span>
  );
}

/** How busy its chips are together: "which of my TPUs is idle?" */
function LoadBar({ tpu }: ITPUProps) {
  const { view } = useActions();
  const { load } = useLoad(tpu, () => view.visible, EVERY_IN_LIST);
  const all = together(
    (load?.hosts ?? []).flatMap(host => latest(host)?.chips ?? [])
  );
  const idle = isIdle(load);
  const label = idle ? trans.__('idle') : dutyLabel(all);
  return label ? (
    <span
      className="jp-tpu-TPU-load"
      title={trans.__('Duty cycle of all chips: %1', label)}
    >
      <Bar percent={idle ? 0 : all.duty_cycle} kind="duty" />
      {label}
    </span>
  ) : null;
}

export function Emulated() {
  return (
    <span
      className="jp-tpu-Badge"
      title={trans.__('Runs on this machine: no chips, no costs')}
    >
      {trans.__('emulated')}
    </span>
  );
}

/** The action that most people want next. */
export function MainButton(
  props: ITPUProps & {
    action: Action;
    /** In as few words as there is room for. */
    short?: boolean;
  }
) {
  const { action, tpu, short } = props;
  const actions = useActions();
  // The notebook icon is orange, which is not readable on the button.
  const Icon = action === 'notebook' ? addIcon : ACTIONS[action].icon;
  const label = actionLabel(action);
  return (
    <TextButton
      main={action !== 'delete'}
      aria-label={label}
      title={label}
      onClick={() => void actions.act(action, tpu)}
    >
      <Icon.react tag="span" elementSize="normal" />
      {short && action === 'notebook' ? trans.__('Notebook') : label}
    </TextButton>
  );
}

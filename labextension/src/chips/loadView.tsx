// Memory and load of a TPU's chips: a plot for each host, and a bar for each chip of a single one.

import React, { useEffect } from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { IKnownLoad } from '../model/loads';
import { IChipLoad, IHostLoad, ITPU } from '../rest/api';
import { failureText } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { Alert } from '../ui/elements';
import { HOSTS_SHOWN, Section, useSome } from '../ui/listSection';
import { useStore } from '../ui/useStore';
import {
  dutyLabel,
  latest,
  loadNotes,
  memoryLabel,
  memoryPercent,
  together,
  usedLabel
} from './loadLabels';
import { Plot } from './plot';

/** Follows the load of a TPU while it can be seen. */
export function useLoad(
  tpu: ITPU,
  isSeen: () => boolean,
  interval?: number
): IKnownLoad {
  const loads = useStore(useActions().loads);
  const answers = hasLoad(tpu);
  useEffect(
    () => (answers ? loads.follow(tpu, isSeen, interval) : undefined),
    [loads, tpu.id, answers]
  );
  return (answers && loads.of(tpu)) || { load: null, failure: null };
}

/** Whether the hosts of a TPU can be asked. */
export function hasLoad(tpu: ITPU): boolean {
  return tpu.state === 'READY' && tpu.connection !== 'disconnected';
}

export function Load({ tpu, known }: ITPUProps & { known: IKnownLoad }) {
  const { load, failure } = known;
  const hosts = load?.hosts ?? [];
  const [some, more] = useSome(
    `${keyOf(tpu)}#load`,
    hosts,
    HOSTS_SHOWN,
    trans.__('Plots of hosts')
  );
  return (
    <Section id="load" title={trans.__('Memory and load')}>
      {!load && !failure && (
        <span role="status">{trans.__('Asking the hosts…')}</span>
      )}
      {failure && <Alert {...failureText(failure)} />}
      {hosts.some(latest) && (
        <p className="jp-tpu-Load-legend">
          <span className="jp-mod-duty">{trans.__('Duty cycle')}</span>
          <span className="jp-mod-memory">{trans.__('HBM')}</span>
          {load?.emulated && <em>{trans.__('measured on this computer')}</em>}
        </p>
      )}
      <ul>
        {some.map(host => (
          <Host key={host.host} host={host} single={hosts.length === 1} />
        ))}
      </ul>
      {more}
    </Section>
  );
}

function Host({ host, single }: { host: IHostLoad; single: boolean }) {
  const sample = latest(host);
  const chips = sample?.chips ?? [];
  const now = together(chips);
  const before = host.samples.map(one => together(one.chips));
  const figures = [
    dutyLabel(now),
    memoryLabel(now),
    sample?.queue ? trans.__('%1 waiting', sample.queue) : ''
  ].filter(Boolean);
  return (
    <li className="jp-tpu-Load">
      <span className="jp-tpu-Load-figures">
        {!single && <span>{trans.__('Host %1', host.host)}</span>}
        <span>{figures.join(' · ')}</span>
      </span>
      {sample && (
        <Plot
          label={trans.__(
            'Duty cycle and memory of host %1: %2',
            host.host,
            figures.join(', ')
          )}
          times={host.samples.map(one => one.time)}
          duty={before.map(one => one.duty_cycle)}
          memory={before.map(memoryPercent)}
        />
      )}
      {single &&
        chips.length > 1 &&
        chips.map((chip, number) => (
          <Chip key={number} chip={chip} number={number} />
        ))}
      {loadNotes(host).map(note => (
        <span key={note} className="jp-tpu-Row-more">
          {note}
        </span>
      ))}
    </li>
  );
}

function Chip({ chip, number }: { chip: IChipLoad; number: number }) {
  return (
    <span className="jp-tpu-Load-chip">
      <span>{trans.__('Chip %1', number)}</span>
      <Bar percent={chip.duty_cycle} kind="duty" />
      <span>{dutyLabel(chip)}</span>
      <Bar percent={memoryPercent(chip)} kind="memory" />
      <span title={memoryLabel(chip)}>{usedLabel(chip)}</span>
    </span>
  );
}

/** The words beside it say the same. */
export function Bar(props: { percent: number | null; kind: string }) {
  const { percent, kind } = props;
  return (
    <span className={`jp-tpu-Bar jp-mod-${kind}`} aria-hidden="true">
      <span style={{ width: `${percent ?? 0}%` }} />
    </span>
  );
}

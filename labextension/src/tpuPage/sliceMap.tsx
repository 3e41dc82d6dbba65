// A picture of a slice: each host with its link, each chip with what it does.

import React, { memo, useMemo } from 'react';

import {
  dutyLabel,
  latest,
  memoryLabel,
  memoryPercent
} from '../chips/loadLabels';
import { kernelName, kernelStateLabel } from '../kernels/kernelLabels';
import { facts, joined } from '../language/text';
import { trans } from '../language/translation';
import { linkWord } from '../model/tpuLabels';
import { IChipLoad, IHost, IHostLoad, IKernel, ITPU } from '../rest/api';
import { Shade } from '../ui/viewState';
import { IHostBlock, ILayout, IPlace, layoutOf } from './topology';

/** Colours for so many kernels, in style/page.css; then they come again. */
const COLORS = 6;

/** In units of the picture: a chip, the room between chips of two hosts, between layers. */
const CHIP = 14;
const HOST_GAP = 4;
const LAYER_GAP = 14;

/** What is known of one chip. */
interface IChip {
  load: IChipLoad | null;
  /** The kernels that have it, as places in the list of kernels. */
  kernels: number[];
}

/** Rendered again only when it would look different. */
export const SliceMap = memo(Drawing);

function Drawing(props: {
  tpu: ITPU;
  /** The catalog's topology: "4x4"; "" where it is not known. */
  topology: string;
  load: IHostLoad[];
  kernels: IKernel[];
  shade: Shade;
}) {
  const { kernels, load, shade, topology, tpu } = props;
  const { hosts } = tpu;
  const perHost = Math.max(
    1,
    Math.round(tpu.chips / Math.max(1, hosts.length))
  );
  const { blocks, width, height, place } = useMemo(
    () => drawing(layoutOf(topology, hosts.length, perHost)),
    [topology, hosts.length, perHost]
  );
  const up = hosts.filter(host => host.link.state === 'up').length;
  return (
    <svg
      className="jp-tpu-Map"
      viewBox={`0 0 ${width} ${height}`}
      style={{ maxWidth: `${width * 2}px` }}
      role="img"
      aria-label={trans.__(
        '%1: %2, %3 of %4 hosts connected',
        tpu.name,
        topology
          ? trans.__('%1 chips as %2', tpu.chips, topology)
          : tpu.meaning,
        up,
        hosts.length
      )}
    >
      {blocks.map(({ host: number, chips }) => {
        const host = hosts[number];
        const pod = kernels.find(kernel => kernel.hosts[number]);
        const state = pod?.hosts[number];
        const known = load.find(one => one.host === number);
        const places = chips.map(place);
        return (
          <g key={number}>
            {frames(chips, places).map((frame, index) => (
              <rect
                key={index}
                className={`jp-tpu-Map-host jp-mod-${host.link.state}`}
                data-kernel={state}
                rx={2}
                {...frame}
              >
                <title>{hostTitle(host, pod)}</title>
              </rect>
            ))}
            {places.map(({ x, y }, chip) => {
              const facts = chipOf(chip, number, known, kernels);
              return (
                <rect
                  key={chip}
                  className={`jp-tpu-Map-chip ${chipClass(facts, shade)}`}
                  x={x + 1.5}
                  y={y + 1.5}
                  width={CHIP - 3}
                  height={CHIP - 3}
                  rx={2}
                  style={{ fillOpacity: strength(facts, shade) }}
                >
                  <title>{chipTitle(facts, number, chip, kernels)}</title>
                </rect>
              );
            })}
          </g>
        );
      })}
    </svg>
  );
}

/** The kernels by their colours; nothing for other shades. */
export function KernelLegend({ kernels }: { kernels: IKernel[] }) {
  return (
    <ul className="jp-tpu-Map-legend">
      {kernels.slice(0, COLORS).map((kernel, index) => (
        <li key={kernel.id}>
          <span
            className={`jp-tpu-Map-color jp-mod-kernel${index % COLORS}`}
            aria-hidden="true"
          />
          {kernelName(kernel)}
        </li>
      ))}
    </ul>
  );
}

/** The size of the picture, and where a chip is in it. */
function drawing({ blocks, width, height, layers }: ILayout): {
  blocks: IHostBlock[];
  width: number;
  height: number;
  place: (chip: IPlace) => { x: number; y: number };
} {
  // Lines between hosts, where the chip before belongs to another host.
  const first = blocks[0]?.chips ?? [];
  const across = new Set(first.map(({ x }) => x)).size || 1;
  const down = new Set(first.map(({ y }) => y)).size || 1;
  const inside = (chips: number, ofHost: number) =>
    chips * CHIP + Math.floor((chips - 1) / ofHost) * HOST_GAP;
  const layerWidth = inside(width, across);
  return {
    blocks,
    width: layers * (layerWidth + LAYER_GAP) - LAYER_GAP + 2,
    height: inside(height, down) + 2,
    place: ({ x, y, layer }) => ({
      x:
        1 +
        layer * (layerWidth + LAYER_GAP) +
        x * CHIP +
        Math.floor(x / across) * HOST_GAP,
      y: 1 + y * CHIP + Math.floor(y / down) * HOST_GAP
    })
  };
}

/** Around the chips of a host, in each layer that it is in. */
function frames(
  chips: IPlace[],
  places: { x: number; y: number }[]
): { x: number; y: number; width: number; height: number }[] {
  const layers = [...new Set(chips.map(({ layer }) => layer))];
  return layers.map(layer => {
    const here = places.filter((_, index) => chips[index].layer === layer);
    const x = Math.min(...here.map(one => one.x));
    const y = Math.min(...here.map(one => one.y));
    return {
      x,
      y,
      width: Math.max(...here.map(one => one.x)) - x + CHIP,
      height: Math.max(...here.map(one => one.y)) - y + CHIP
    };
  });
}

function chipOf(
  chip: number,
  host: number,
  load: IHostLoad | undefined,
  kernels: IKernel[]
): IChip {
  const sample = load && latest(load);
  return {
    load: sample?.chips[chip] ?? null,
    kernels: kernels.flatMap(
      ({ booked, chips, host: of, hosts, state }, index) =>
        (hosts.length > 0 ? hosts[host] !== 'dead' : of === host) &&
        chips &&
        state !== 'dead' &&
        (booked.length === 0 || booked.includes(chip))
          ? [index]
          : []
    )
  };
}

/** From 0 to 1: how much of its colour a chip has. */
function strength(chip: IChip, shade: Shade): number {
  if (shade === 'kernel') {
    return chip.kernels.length > 0 ? 1 : 0;
  }
  const percent =
    chip.load &&
    (shade === 'duty' ? chip.load.duty_cycle : memoryPercent(chip.load));
  return percent === null ? 0 : 0.08 + (0.92 * Math.min(100, percent)) / 100;
}

function chipClass(chip: IChip, shade: Shade): string {
  return shade === 'kernel'
    ? chip.kernels.length > 0
      ? `jp-mod-kernel${chip.kernels[0] % COLORS}`
      : ''
    : `jp-mod-${shade}`;
}

function hostTitle(host: IHost, pod: IKernel | undefined): string {
  const { link } = host;
  const state = pod?.hosts[host.index];
  return joined(
    '\n',
    trans.__('Host %1: %2', host.index, linkWord(link.state)),
    link.problem?.message,
    state && `${kernelName(pod)}: ${kernelStateLabel(state)}`
  );
}

function chipTitle(
  chip: IChip,
  host: number,
  number: number,
  kernels: IKernel[]
): string {
  const { load } = chip;
  return facts(
    trans.__('Host %1, chip %2', host, number),
    load && dutyLabel(load),
    load && memoryLabel(load),
    ...chip.kernels.map(index => kernelName(kernels[index]))
  );
}

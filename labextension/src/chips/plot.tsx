// A small plot of percents over time, in the colors that style/load.css has for the kinds of lines.

import React from 'react';

type Values = readonly (number | null)[];

export function Plot(props: {
  /** What it shows, for screen readers. */
  label: string;
  /** Seconds since the epoch. */
  times: number[];
  duty: Values;
  memory: Values;
}) {
  const { duty, label, memory, times } = props;
  return (
    <svg
      className="jp-tpu-Plot"
      role="img"
      aria-label={label}
      viewBox="0 -4 100 108"
      preserveAspectRatio="none"
    >
      <path d={pathOf(times, duty)} />
      <path className="jp-mod-memory" d={pathOf(times, memory)} />
    </svg>
  );
}

/** A line through the values; where some are not known, it begins anew after them. */
function pathOf(times: number[], values: Values): string {
  const [first] = times;
  const all = Math.max(1, times[times.length - 1] - first);
  return values
    .map((value, index) => {
      const command = (values[index - 1] ?? null) === null ? 'M' : 'L';
      const place = (100 * (times[index] - first)) / all;
      return value === null ? '' : `${command}${place} ${100 - value}`;
    })
    .join('');
}

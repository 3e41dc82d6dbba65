// A small plot of percents over time.

import React, { useEffect, useRef, useState } from 'react';
import type uPlot from 'uplot';

import { failureLine } from '../ui/failures';

/** A line of the plot. */
export interface ILine {
  /** A variable of JupyterLab's theme: it is read again when the plot is drawn. */
  color: string;
  values: (number | null)[];
}

const HEIGHT = 48;

export function Plot(props: {
  /** What it shows, for screen readers. */
  label: string;
  /** Seconds since the epoch. */
  times: number[];
  lines: ILine[];
}) {
  const { label, lines, times } = props;
  const [failure, setFailure] = useState('');
  const node = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colors = lines.map(line => line.color).join();
  const data = [times, ...lines.map(line => line.values)] as uPlot.AlignedData;
  const last = useRef(data);
  last.current = data;
  useEffect(() => {
    let ended = false;
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: widthOf(node.current), height: HEIGHT })
    );
    // It is loaded when the first plot is shown.
    const load = async () => {
      const { default: UPlot } = await import('uplot');
      if (ended || !node.current) {
        return;
      }
      const options = optionsOf(colors.split(','), widthOf(node.current));
      plot.current = new UPlot(options, last.current, node.current);
      resized.observe(node.current);
    };
    load().catch(error => {
      if (!ended) {
        setFailure(failureLine(error));
      }
    });
    return () => {
      ended = true;
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [colors]);
  useEffect(() => plot.current?.setData(last.current), [data]);
  return (
    <div ref={node} className="jp-tpu-Plot" role="img" aria-label={label}>
      {failure}
    </div>
  );
}

function widthOf(node: HTMLElement | null): number {
  return Math.max(50, node?.clientWidth ?? 0);
}

function optionsOf(colors: string[], width: number): uPlot.Options {
  return {
    width,
    height: HEIGHT,
    padding: [2, 0, 2, 0],
    legend: { show: false },
    cursor: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: { y: { range: [0, 100] } },
    series: [
      {},
      ...colors.map(color => ({
        stroke: () => themed(color),
        width: 1.5,
        points: { show: false }
      }))
    ]
  };
}

function themed(color: string): string {
  return getComputedStyle(document.body).getPropertyValue(color).trim();
}

// The extension's own icons.

import { LabIcon } from '@jupyterlab/ui-components';

import chartSvg from '../../style/icons/chart.svg';
import filesSvg from '../../style/icons/files.svg';
import jobSvg from '../../style/icons/job.svg';
import tpuSvg from '../../style/icons/tpu.svg';
import traceSvg from '../../style/icons/trace.svg';
import tunnelSvg from '../../style/icons/tunnel.svg';
import unlinkSvg from '../../style/icons/unlink.svg';

function icon(name: string, svgstr: string): LabIcon {
  return new LabIcon({ name: `jupyter-tpu:${name}`, svgstr });
}

export const tpuIcon = icon('tpu', tpuSvg);
/** A folder on a chip. */
export const filesIcon = icon('files', filesSvg);
/** A timeline: what a trace is shown as. */
export const traceIcon = icon('trace', traceSvg);
export const jobIcon = icon('job', jobSvg);
export const chartIcon = icon('chart', chartSvg);
export const tunnelIcon = icon('tunnel', tunnelSvg);
export const unlinkIcon = icon('unlink', unlinkSvg);

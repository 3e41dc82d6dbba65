// The extension's own icons.

import { LabIcon } from '@jupyterlab/ui-components';

import chartSvg from '../../style/icons/chart.svg';
import filesSvg from '../../style/icons/files.svg';
import jobSvg from '../../style/icons/job.svg';
import tpuSvg from '../../style/icons/tpu.svg';
import traceSvg from '../../style/icons/trace.svg';
import tunnelSvg from '../../style/icons/tunnel.svg';
import unlinkSvg from '../../style/icons/unlink.svg';

export const tpuIcon = new LabIcon({ name: 'jupyter-tpu:tpu', svgstr: tpuSvg });

/** A folder on a chip. */
export const filesIcon = new LabIcon({
  name: 'jupyter-tpu:files',
  svgstr: filesSvg
});

/** A timeline: what a trace is shown as. */
export const traceIcon = new LabIcon({
  name: 'jupyter-tpu:trace',
  svgstr: traceSvg
});

export const jobIcon = new LabIcon({ name: 'jupyter-tpu:job', svgstr: jobSvg });

export const chartIcon = new LabIcon({
  name: 'jupyter-tpu:chart',
  svgstr: chartSvg
});

export const tunnelIcon = new LabIcon({
  name: 'jupyter-tpu:tunnel',
  svgstr: tunnelSvg
});

export const unlinkIcon = new LabIcon({
  name: 'jupyter-tpu:unlink',
  svgstr: unlinkSvg
});

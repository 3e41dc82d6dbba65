// The extension's own icons, and the icons of actions.

import {
  bugIcon,
  checkIcon,
  clearIcon,
  consoleIcon,
  copyIcon,
  deleteIcon,
  downloadIcon,
  duplicateIcon,
  fileUploadIcon,
  historyIcon,
  LabIcon,
  launchIcon,
  linkIcon,
  notebookIcon,
  pythonIcon,
  refreshIcon,
  runIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';

import chartSvg from '../../style/icons/chart.svg';
import filesSvg from '../../style/icons/files.svg';
import jobSvg from '../../style/icons/job.svg';
import tpuSvg from '../../style/icons/tpu.svg';
import traceSvg from '../../style/icons/trace.svg';
import tunnelSvg from '../../style/icons/tunnel.svg';
import unlinkSvg from '../../style/icons/unlink.svg';
import { Action } from '../model/availableActions';

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

const jobIcon = new LabIcon({ name: 'jupyter-tpu:job', svgstr: jobSvg });

const chartIcon = new LabIcon({
  name: 'jupyter-tpu:chart',
  svgstr: chartSvg
});

const tunnelIcon = new LabIcon({
  name: 'jupyter-tpu:tunnel',
  svgstr: tunnelSvg
});

const unlinkIcon = new LabIcon({
  name: 'jupyter-tpu:unlink',
  svgstr: unlinkSvg
});

const ACTION_ICONS: { [action in Action]: LabIcon } = {
  app: launchIcon,
  browse: filesIcon,
  check: checkIcon,
  chips: clearIcon,
  connect: linkIcon,
  console: consoleIcon,
  copy: copyIcon,
  delete: deleteIcon,
  detach: unlinkIcon,
  disconnect: unlinkIcon,
  download: downloadIcon,
  environment: pythonIcon,
  example: duplicateIcon,
  guard: historyIcon,
  job: jobIcon,
  memory: chartIcon,
  notebook: notebookIcon,
  profile: traceIcon,
  replace: refreshIcon,
  report: bugIcon,
  run: runIcon,
  share: filesIcon,
  split: duplicateIcon,
  start: runIcon,
  stop: stopIcon,
  sync: refreshIcon,
  tensorboard: chartIcon,
  terminal: terminalIcon,
  tunnel: tunnelIcon,
  upload: fileUploadIcon
};

export function actionIcon(action: Action): LabIcon {
  return ACTION_ICONS[action];
}

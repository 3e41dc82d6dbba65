// The extension's own icons, and the icons of actions.

import {
  consoleIcon,
  deleteIcon,
  LabIcon,
  launchIcon,
  linkIcon,
  notebookIcon,
  runIcon,
  stopIcon
} from '@jupyterlab/ui-components';

import tpuSvg from '../style/icons/tpu.svg';
import traceSvg from '../style/icons/trace.svg';
import { Action } from './model/availableActions';

export const tpuIcon = new LabIcon({ name: 'jupyter-tpu:tpu', svgstr: tpuSvg });

/** A timeline: what a trace is shown as. */
export const traceIcon = new LabIcon({
  name: 'jupyter-tpu:trace',
  svgstr: traceSvg
});

/** The icon of an action, if it has one. */
export function actionIcon(action: Action): LabIcon | undefined {
  const icons: { [action in Action]?: LabIcon } = {
    app: launchIcon,
    connect: linkIcon,
    console: consoleIcon,
    delete: deleteIcon,
    notebook: notebookIcon,
    start: runIcon,
    stop: stopIcon
  };
  return icons[action];
}

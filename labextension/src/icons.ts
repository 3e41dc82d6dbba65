// The project's own icon, and which of JupyterLab's stand for what.

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
import { Action } from './model/availableActions';

export const tpuIcon = new LabIcon({ name: 'jupyter-tpu:tpu', svgstr: tpuSvg });

/** An action's icon, if one stands for it. */
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

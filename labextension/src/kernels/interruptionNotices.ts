// Says in the notebooks and consoles of a TPU that Google is about to stop it.

import { JupyterFrontEnd } from '@jupyterlab/application';

import { IPanelActions } from '../actions/panelActions';
import { problemLine } from '../language/text';
import { maintenanceText } from '../model/tpuLabels';
import { NotebookNotices } from './notebookNotices';

/** Shows it as long as the hosts of the TPU say so. */
export function addInterruptionNotices(
  actions: IPanelActions,
  shell: JupyterFrontEnd.IShell
): void {
  const { model } = actions;
  const notices = new NotebookNotices(shell, model, () => {
    for (const tpu of model.tpus) {
      const what = maintenanceText(tpu);
      if (tpu.interruption && what) {
        notices.show(tpu, problemLine(what), actions.showTPU);
      }
    }
  });
  notices.update();
}

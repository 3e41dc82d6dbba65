// Says in the notebooks and consoles of a TPU that Google is about to stop it.

import { JupyterFrontEnd } from '@jupyterlab/application';

import { Actions } from '../actions/actions';
import { maintenanceText } from '../panel/tpuLabels';
import { trans } from '../ui/translation';
import { NotebookNotices } from './notebookNotices';

/** Shows it as long as the hosts of the TPU say so. */
export function addInterruptionNotices(
  actions: Actions,
  shell: JupyterFrontEnd.IShell
): void {
  const { model } = actions;
  const notices = new NotebookNotices(shell);
  const look = () => {
    notices.begin();
    for (const tpu of model.tpus) {
      const what = maintenanceText(tpu);
      if (tpu.interruption && what) {
        const specs = tpu.environments.map(
          environment => environment.kernelspec
        );
        notices.show(specs, `${what.message} ${what.hint}`, {
          label: trans.__('Show TPU'),
          callback: () => actions.openPanel()
        });
      }
    }
    notices.end();
  };
  model.stateChanged.connect(look);
  shell.currentChanged?.connect(look); // another notebook may be open
  look();
}

// Connected TPUs among JupyterLab's running things.

import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { Actions } from './actions/actions';
import { ITPU } from './api';
import { tpuIcon } from './icons';
import { keyOf } from './model/resources';
import { TPUModel } from './model/model';
import { connectionLabel, kernelCountLabel } from './labels';

/** *open* brings the panel to the front. */
export function addRunning(
  managers: IRunningSessionManagers,
  actions: Actions,
  open: () => void
): IDisposable {
  const { model, trans } = actions;
  const changed = new Signal<TPUModel, void>(model);
  const connected = () =>
    model.tpus.filter(tpu => tpu.connection !== 'disconnected');
  // The section is made anew at each signal: only when it would look different.
  let last = '';
  model.stateChanged.connect(() => {
    const now = connected()
      .map(tpu => `${keyOf(tpu)} ${tpu.connection} ${tpu.kernels}`)
      .join();
    if (now !== last) {
      last = now;
      changed.emit();
    }
  });
  const item = (tpu: ITPU): IRunningSessions.IRunningItem => ({
    label: () => tpu.name,
    labelTitle: () => `${tpu.type} · ${tpu.zone}`,
    detail: () =>
      [
        connectionLabel(tpu, trans),
        tpu.kernels > 0 && kernelCountLabel(tpu.kernels, trans)
      ]
        .filter(Boolean)
        .join(' · '),
    icon: () => tpuIcon,
    open,
    shutdown: () => void actions.act('disconnect', tpu)
  });
  return managers.add({
    name: trans.__('TPUs'),
    running: () => connected().map(item),
    runningChanged: changed,
    refreshRunning: () => void model.refresh(),
    // One question for each TPU whose kernels would end, one after the other.
    shutdownAll: () =>
      void connected().reduce(
        (before, tpu) => before.then(() => actions.act('disconnect', tpu)),
        Promise.resolve()
      ),
    shutdownLabel: trans.__('Disconnect'),
    shutdownAllLabel: trans.__('Disconnect All'),
    shutdownAllConfirmationText: trans.__(
      'Are you sure you want to disconnect all TPUs?'
    )
  });
}

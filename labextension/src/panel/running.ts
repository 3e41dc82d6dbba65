// The plugin that lists connected TPUs among the running terminals and kernels.

/* eslint-disable jupyter/prefer-lazy-imports -- The list is small. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { IPanelActions } from '../actions/panelActions';
import { kernelCountLabel } from '../kernels/kernelLabels';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { tpuStatus } from '../model/tpuLabels';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { ITPUActions } from '../tokens';
import { tpuIcon } from '../ui/icons';

/** Adds the section. */
export function addRunning(
  managers: IRunningSessionManagers,
  actions: IPanelActions
): IDisposable {
  const { model } = actions;
  const changed = new Signal<TPUModel, void>(model);
  const connected = () =>
    model.tpus.filter(tpu => tpu.connection !== 'disconnected');
  // The section is rendered again at each signal: only when it would look different.
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
    label: () => model.nameOf(tpu),
    labelTitle: () => `${tpu.type} · ${tpu.zone}`,
    detail: () =>
      facts(
        tpuStatus(tpu).label,
        tpu.kernels > 0 && kernelCountLabel(tpu.kernels)
      ),
    icon: () => tpuIcon,
    open: () => actions.openPanel(),
    shutdown: () => void actions.act('disconnect', tpu)
  });
  return managers.add({
    name: trans.__('TPUs'),
    running: () => connected().map(item),
    runningChanged: changed,
    refreshRunning: () => void model.refresh(),
    // One TPU after the other, since each may ask a question.
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

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:running',
  description: 'Lists connected TPUs among the running terminals and kernels.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [IRunningSessionManagers],
  activate: (
    _: JupyterFrontEnd,
    actions: IPanelActions,
    managers: IRunningSessionManagers | null
  ) => {
    if (managers) {
      addRunning(managers, actions);
    }
  }
};

export default plugin;

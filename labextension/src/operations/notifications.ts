// The plugin that notifies of ended operations while the panel is closed, of jobs that have ended or
// seem to hang, of kernels that died, of TPUs that Google preempts, of maintenance that it announces, and of TPUs that are
// about to stop themselves.

/* eslint-disable jupyter/prefer-lazy-imports -- An operation may end at any time. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { IPanelActions } from '../actions/panelActions';
import { addGuardNotices } from '../guard/guardNotices';
import { jobState } from '../jobs/jobLabels';
import { addInterruptionNotices } from '../kernels/interruptionNotices';
import { findDocument } from '../kernels/kernelWidget';
import { addLostKernels, IOpenNotebooks } from '../kernels/lostKernels';
import { runAbove } from '../kernels/runAbove';
import { problemLine } from '../language/text';
import { trans } from '../language/translation';
import { isGone, startableEnvironments } from '../model/availableActions';
import { operationTitle } from '../model/operationLabels';
import { noticeOf } from '../model/jobs';
import { maintenanceText } from '../model/tpuLabels';
import { queuedState } from '../money/queuedLabels';
import { IJob, ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { StoredIds } from '../state/storedIds';
import { ITPUActions } from '../tokens';
import { INotificationAction, notify } from '../ui/notify';

/** What is news of a TPU, and what comes for it; null where nothing does. */
function comingTo(tpu: ITPU): { news: string; text: string } | null {
  const { id, interruption, maintenance } = tpu;
  const coming = maintenanceText(tpu);
  if (!coming) {
    return null;
  }
  // That all checkpoints have ended is news, too.
  const states = interruption?.checkpoints.map(({ state }) => state) ?? [];
  const ended = states.includes('running') ? '' : states.join(' ');
  const news = interruption
    ? `${id} ${interruption.kind} ${interruption.noticed} ${ended}`
    : `${id} ${maintenance?.start} ${maintenance?.ongoing}`;
  return { news, text: problemLine(coming) };
}

/** Up to so many TPUs that Google has ended get a notification each; more would cover the page. */
const ENDED_SHOWN = 2;

/**
 * wanted: whether to notify of operations.
 * notebooks: those of this page.
 * announced: what was said of TPUs before, in this browser.
 */
export function addNotifications(
  actions: IPanelActions,
  isWanted: () => boolean,
  notebooks: IOpenNotebooks,
  announced = new StoredIds()
): void {
  const { model, showTPU } = actions;
  const isNews = (what: string) => {
    const news = isWanted() && !announced.has(what);
    if (news) {
      announced.add(what);
    }
    return news;
  };
  const endOf = (tpu: ITPU): INotificationAction => ({
    label: trans.__('Delete…'),
    callback: () => void actions.act('delete', model.tpu(keyOf(tpu)) ?? tpu)
  });
  const page = (
    label: string,
    name: 'queued' | 'usage'
  ): INotificationAction => ({
    label,
    callback: () => void actions.openPage(name)
  });

  const logOf = (job: IJob): INotificationAction => ({
    label: trans.__('Show Output'),
    callback: () => void actions.jobs.showLog(job)
  });

  model.operationEnded.connect((_, operation) => {
    if (!isWanted() || actions.view.visible) {
      return;
    }
    const title = operationTitle(operation);
    const show = {
      label: trans.__('Show'),
      callback: () => actions.openPanel()
    };
    if (operation.state === 'failed') {
      const why = operation.problem?.message ?? operation.message;
      notify.error(trans.__('%1: %2', title, why), show);
    } else if (operation.state === 'done') {
      const tpu = model.tpuOf(operation);
      const startable = tpu && startableEnvironments(tpu).length > 0;
      const notebook = {
        label: trans.__('New Notebook'),
        callback: () =>
          tpu && void actions.open.notebook(model.tpuOf(operation) ?? tpu)
      };
      notify.success(title, startable ? notebook : show);
    }
  });
  model.jobs.ended.connect((_, job) => {
    if (!isWanted() || job.stopped) {
      return; // somebody stopped it
    }
    const state = jobState(job);
    const message = trans.__('%1 on %2: %3', job.name, job.tpu, state);
    Notification.emit(message, job.state === 'ended' ? 'success' : 'error', {
      autoClose: false,
      actions: actions.offers('job') ? [logOf(job)] : []
    });
  });
  const notifyOfJobs = () => {
    for (const job of model.allJobs.values()) {
      if (!job.notice && announced.has(noticeOf(job))) {
        announced.delete(noticeOf(job)); // the next one is news again
      } else if (job.notice && isNews(noticeOf(job))) {
        const where = {
          label: trans.__('Where Does It Stand?'),
          callback: () => void actions.jobs.showWhere(job)
        };
        notify.warning(
          trans.__('%1 on %2: %3', job.name, job.tpu, job.notice),
          where,
          logOf(job)
        );
      }
    }
  };

  // The notifications of hosts that are about to stop, by the ids of their TPUs.
  const interrupted = new Map<string, string>();
  const notifyOfComing = ({ id, interruption }: ITPU, message: string) => {
    const options = { autoClose: false as const, actions: [showTPU] };
    const before = interrupted.get(id) ?? '';
    if (interruption && Notification.manager.has(before)) {
      Notification.update({ id: before, message, ...options });
      return;
    }
    const shown = Notification.warning(message, options);
    if (interruption) {
      interrupted.set(id, shown);
    }
  };
  // The names in each notification that Google has ended TPUs, and the kernels that were lost.
  const told = new Map<string, string[]>();
  const lostOn = new Map<string, Set<string>>();
  const isOpen = (id: string) => Notification.manager.has(id);
  const afterEnd = (tpu: ITPU): INotificationAction[] => {
    const { type, zone, tier } = tpu;
    const again = {
      label: trans.__('Create Again…'),
      callback: () => void actions.act('replace', model.tpu(keyOf(tpu)) ?? tpu)
    };
    const another = {
      label: trans.__('Hunt for Another…'),
      callback: () => void actions.openCreateForm({ type, zone, tier }, true)
    };
    const canReplace = actions.available(tpu).includes('replace');
    return [...(canReplace ? [again] : [endOf(tpu)]), another, showTPU];
  };
  // One event is one notification: that of what was coming becomes that of its end.
  const notifyOfEnd = (tpu: ITPU) => {
    const { id, name, problem } = tpu;
    const names = [...(lostOn.get(name) ?? [])].join(', ');
    const text = problemLine(problem);
    const message = names
      ? trans.__('%1 Lost kernels: %2.', text, names)
      : text;
    const options = { autoClose: false as const, actions: afterEnd(tpu) };
    const before = interrupted.get(id) ?? '';
    if (isOpen(before)) {
      Notification.update({ id: before, message, type: 'error', ...options });
    } else {
      interrupted.set(id, Notification.error(message, options));
    }
    told.set(interrupted.get(id)!, [name]);
  };
  const notifyOfEnded = (ended: ITPU[]) => {
    for (const { name } of ended) {
      lostOn.set(name, new Set(lostKernels.take(name)));
    }
    const open = [...told].filter(([id]) => isOpen(id));
    const before = open.flatMap(([, names]) => names);
    const names = [...before, ...ended.map(({ name }) => name)];
    if (names.length <= ENDED_SHOWN) {
      ended.forEach(notifyOfEnd);
      return;
    }
    open.forEach(([id]) => Notification.dismiss(id));
    const text = trans.__(
      'Google has ended %1 TPUs: %2. Delete them and create others.',
      names.length,
      names.join(', ')
    );
    told.set(notify.error(text, showTPU), names);
  };
  const lostKernels = addLostKernels(actions, notebooks, (tpu, kernel) => {
    const shown = lostOn.get(tpu.name)?.add(kernel);
    if (shown && isOpen(interrupted.get(tpu.id) ?? '')) {
      notifyOfEnd(tpu);
    }
  });
  model.stateChanged.connect(() => {
    notifyOfJobs();
    const ended: ITPU[] = [];
    for (const tpu of model.tpus) {
      const { advice, forgotten, id, name, problem, state } = tpu;
      const coming = comingTo(tpu);
      if (coming && isNews(coming.news)) {
        notifyOfComing(tpu, coming.text);
      }
      if (isGone({ state }) && problem && isNews(`gone ${id}`)) {
        ended.push(tpu);
      }
      if (forgotten && isNews(`forgotten ${id}`)) {
        const text = trans.__(
          '%1 has been ready for hours, and is not connected here. %2',
          name,
          advice
        );
        notify.warning(text, page(trans.__('Show Usage'), 'usage'), endOf(tpu));
      }
    }
    if (ended.length > 0) {
      notifyOfEnded(ended);
    }
  });
  model.unlistedChanged.connect((_, { queued }) => {
    if (
      queued?.forgotten &&
      isNews(`queued ${queued.zone}/${queued.name} ${queued.created}`)
    ) {
      const text = trans.__(
        'Queued resource %1: %2. It uses quota until you delete it.',
        queued.name,
        queuedState(queued.state)
      );
      notify.warning(text, page(trans.__('Show Queued Resources'), 'queued'));
    }
  });
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:notifications',
  description:
    'Notifies when an operation or a job ends, a kernel dies, or a TPU is about to stop itself.',
  autoStart: true,
  requires: [ITPUActions],
  optional: [ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    actions: IPanelActions,
    registry: ISettingRegistry | null
  ) => {
    let settings: ISettingRegistry.ISettings | null = null;
    addNotifications(
      actions,
      () => (settings?.get('notify').composite ?? true) as boolean,
      {
        isOpen: path => !!findDocument(app.shell, path),
        runAbove: path => runAbove(app, path)
      },
      new StoredIds(
        window.localStorage,
        `jupyter-tpu:announced:${app.serviceManager.serverSettings.baseUrl}`
      )
    );
    addGuardNotices(actions, app.shell);
    addInterruptionNotices(actions, app.shell);
    registry
      ?.load(plugin.id)
      .then(loaded => {
        settings = loaded;
      })
      .catch(reason => {
        Notification.error(
          trans.__('The settings for TPUs could not be loaded: %1', reason)
        );
      });
  }
};

export default plugin;

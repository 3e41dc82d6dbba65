// Warns before a TPU stops or deletes itself, while it can still be kept, and before the time of a
// flex-start TPU is over: by a notification, and in the notebooks and consoles that use it.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import { IPanelActions } from '../actions/panelActions';
import { NotebookNotices } from '../kernels/notebookNotices';
import { trans } from '../language/translation';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { notify } from '../ui/notify';
import { guardLabel, runEndLabel } from './guardLabels';

/** Milliseconds before the end at which it is announced at the latest. */
const LATEST = 60_000;
/** The same, of the end of a flex-start TPU: time to save results. */
const RUN_LEAD = 900_000;
/** The longest pause between two looks; the clock may be changed. */
const LONGEST = 3600_000;

/** Shows for each TPU whose end is announced what happens, until it is over or put off. */
export function addGuardNotices(
  actions: IPanelActions,
  shell: JupyterFrontEnd.IShell
): void {
  const { model } = actions;
  const shown = new Map<string, string>(); // the notifications, by TPU
  let timer = 0;
  const notices = new NotebookNotices(shell, model, () => {
    const announced = new Set<string>();
    let next = LONGEST;
    for (const tpu of model.tpus) {
      for (const { ends, lead, text, byGuard } of endsOf(tpu, actions)) {
        const left = Date.parse(ends) - Date.now() - lead;
        if (left > 0) {
          next = Math.min(next, left);
          continue;
        }
        const key = `${keyOf(tpu)} ${byGuard}`;
        announced.add(key);
        const keep = {
          label: trans.__('Keep It for an Hour'),
          callback: async () =>
            (await import('./guardDialog')).keep(actions, tpu)
        };
        const possible = [...(byGuard ? [keep] : []), actions.showTPU];
        notices.show(tpu, text, possible[0]);
        if (!shown.has(key)) {
          shown.set(key, notify.warning(text, ...possible));
        }
      }
    }
    for (const [key, id] of [...shown]) {
      if (!announced.has(key)) {
        Notification.dismiss(id);
        shown.delete(key);
      }
    }
    window.clearTimeout(timer);
    timer = window.setTimeout(() => notices.update(), next);
  });
  notices.update();
}

interface IEnd {
  /** RFC 3339. */
  ends: string;
  /** Milliseconds before it at which it is announced. */
  lead: number;
  text: string;
  /** Then it can be put off. */
  byGuard: boolean;
}

/** What may end a TPU at a known time. What a notebook shows of it is the last one. */
function* endsOf(tpu: ITPU, actions: IPanelActions): Generator<IEnd> {
  const { guard, name, run_ends: ends } = tpu;
  if (ends) {
    const text = `${name}: ${runEndLabel(ends)}`;
    yield { ends, lead: RUN_LEAD, text, byGuard: false };
  }
  if (guard?.ends) {
    const text = `${name}: ${guardLabel(guard)}`;
    const lead = Math.max(1000 * guard.notice, LATEST);
    yield { ends: guard.ends, lead, text, byGuard: true };
  }
}

// Warns before a TPU stops or deletes itself, while it can still be kept: by a notification, and in
// the notebooks and consoles that use it.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import { Actions } from './actions/actions';
import { NotebookNotices } from './kernels/notebookNotices';
import { guardLabel } from './labels/guard';
import { keyOf } from './model/resources';

/** Milliseconds before the end at which it is announced at the latest. */
const LATEST = 60_000;
/** The longest pause between two looks; the clock may be changed. */
const LONGEST = 3600_000;

/** Shows for each TPU whose end is announced what happens, until it is over or put off. */
export function addGuardNotices(
  actions: Actions,
  shell: JupyterFrontEnd.IShell
): void {
  const { model, trans } = actions;
  const notices = new NotebookNotices(shell);
  const shown = new Map<string, string>(); // the notifications, by TPU
  let timer = 0;
  const look = () => {
    const announced = new Set<string>();
    notices.begin();
    let next = LONGEST;
    for (const tpu of model.tpus) {
      if (!tpu.guard?.ends) {
        continue;
      }
      const key = keyOf(tpu);
      const lead = Math.max(1000 * tpu.guard.notice, LATEST);
      const left = Date.parse(tpu.guard.ends) - Date.now() - lead;
      if (left > 0) {
        next = Math.min(next, left);
        continue;
      }
      announced.add(key);
      const what = guardLabel(tpu.guard, trans, actions.language);
      const text = `${tpu.name}: ${what}`;
      const keep = {
        label: trans.__('Keep It for an Hour'),
        callback: () => void model.keep(tpu)
      };
      const specs = tpu.environments.map(each => each.kernelspec);
      notices.show(specs, text, keep);
      if (!shown.has(key)) {
        const show = {
          label: trans.__('Show TPU'),
          callback: () => actions.openPanel()
        };
        const id = Notification.warning(text, {
          autoClose: false,
          actions: [keep, show]
        });
        shown.set(key, id);
      }
    }
    for (const [key, id] of [...shown]) {
      if (!announced.has(key)) {
        Notification.dismiss(id);
        shown.delete(key);
      }
    }
    notices.end();
    window.clearTimeout(timer);
    timer = window.setTimeout(look, next);
  };
  model.stateChanged.connect(look);
  shell.currentChanged?.connect(look); // another notebook may be open
  look();
}

// Warns before a TPU stops or deletes itself, while it can still be kept.

import { Notification } from '@jupyterlab/apputils';

import { Actions } from './actions/actions';
import { guardLabel } from './labels/guard';
import { keyOf } from './model/resources';

/** Milliseconds before the end at which it is announced at the latest. */
const LATEST = 60_000;
/** The longest pause between two looks; the clock may be changed. */
const LONGEST = 3600_000;

/** Shows a notification for each TPU whose end is announced, until it is over or put off. */
export function addGuardNotices(actions: Actions): void {
  const { model, trans } = actions;
  const shown = new Map<string, string>(); // the notifications, by TPU
  let timer = 0;
  const look = () => {
    const announced = new Set<string>();
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
      if (!shown.has(key)) {
        const what = guardLabel(tpu.guard, trans, actions.language);
        const keep = {
          label: trans.__('Keep It for an Hour'),
          callback: () => void model.keep(tpu)
        };
        const show = {
          label: trans.__('Show TPU'),
          callback: () => actions.openPanel()
        };
        const id = Notification.warning(`${tpu.name}: ${what}`, {
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
    window.clearTimeout(timer);
    timer = window.setTimeout(look, next);
  };
  model.stateChanged.connect(look);
  look();
}

// What the server knows of saved variables, while somebody looks at it.

import { TPUModel } from '../model/model';
import { IChange, ISessionList, ITPU } from '../rest/api';
import { Loaded } from '../state/loaded';

/** The sessions that the kernels of each TPU can restore, kept up to date by the server's events. */
class SessionLists {
  constructor(private _model: TPUModel) {
    _model.unlistedChanged.connect((_, change) => this._apply(change));
  }

  of(tpu: ITPU): Loaded<ISessionList> {
    const list =
      this._lists.get(tpu.id) ??
      new Loaded(() => this._model.client.sessions.list(tpu));
    this._lists.set(tpu.id, list);
    return list;
  }

  private _apply({ gone, id, session, what }: IChange): void {
    if (what !== 'session') {
      return;
    }
    for (const list of this._lists.values()) {
      const { value } = list;
      const has = value?.sessions.some(one => one.id === id);
      if (value && (has || gone)) {
        const others = value.sessions.filter(one => one.id !== id);
        const sessions = session && !gone ? [session, ...others] : others;
        list.put({ ...value, sessions });
      } else if (value) {
        void list.load(); // the server knows which TPUs can restore a new one
      }
    }
  }

  private _lists = new Map<string, Loaded<ISessionList>>();
}

const LISTS = new WeakMap<TPUModel, SessionLists>();

/** The same lists for all that shows them. */
export function sessionLists(model: TPUModel): SessionLists {
  const lists = LISTS.get(model) ?? new SessionLists(model);
  LISTS.set(model, lists);
  return lists;
}

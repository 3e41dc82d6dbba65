// What coding agents and people may spend: budgets, and the plans that wait for a yes.

import { IBudgetOverview, IBudgetUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';
import { namesIn } from '../ui/typed';

/** The input; types and zones are separated by commas or spaces. */
const EMPTY = {
  who: 'agent',
  day: '',
  total: '',
  types: '',
  zones: '',
  until: ''
};

export class BudgetsForm extends ListForm<typeof EMPTY, IBudgetUse> {
  constructor(private _client: Pick<TPUClient, 'budgets' | 'plans'>) {
    super({
      empty: EMPTY,
      complete: ({ day, total, who }) =>
        !!who.trim() && (+day > 0 || +total > 0),
      list: async () => this._take(await _client.budgets.show()),
      add: async ({ day, total, types, until, who, zones }) =>
        this._take(
          await _client.budgets.set({
            who: who.trim(),
            day: +day || null,
            total: +total || null,
            types: namesIn(types),
            zones: namesIn(zones),
            until
          })
        ),
      remove: who => _client.budgets.remove(who)
    });
  }

  /** All of it; null until that is known. */
  overview: IBudgetOverview | null = null;

  /** An event has brought it. */
  update(overview: IBudgetOverview): void {
    this.list.put(this._take(overview));
  }

  /** Answers the question whether a plan outside of its budget may be carried out. */
  async answer(plan: string, approve: boolean): Promise<void> {
    await this.send(() => this._client.plans.answer(plan, { approve }));
    await this.list.load();
  }

  private _take(overview: IBudgetOverview): IBudgetUse[] {
    this.overview = overview;
    return overview.budgets;
  }
}

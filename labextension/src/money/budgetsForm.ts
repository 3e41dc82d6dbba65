// What coding agents and people may spend: budgets, and the plans that wait for a yes.

import { IBudget, IBudgetOverview, IBudgetUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

const EMPTY: Required<IBudget> = {
  folder: '',
  who: 'agent',
  day: null,
  total: null,
  types: [],
  zones: [],
  until: ''
};

export class BudgetsForm extends ListForm<Required<IBudget>, IBudgetUse> {
  constructor(private _client: Pick<TPUClient, 'budgets' | 'plans'>) {
    super({
      empty: EMPTY,
      complete: ({ day, total, who }) => !!who && !!(day || total),
      list: async () => this._take(await _client.budgets.show()),
      add: async budget => this._take(await _client.budgets.set(budget)),
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

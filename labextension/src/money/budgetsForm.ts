// What coding agents and people may spend: budgets, and the plans that wait for a yes.

import { IBudgetOverview, IBudgetUse } from '../rest/api';
import { TPUClient } from '../rest/client';
import { ListForm } from '../ui/listForm';

/** The input; types and zones are separated by commas or spaces. */
export interface IBudgetFields {
  who: string;
  day: string;
  total: string;
  types: string;
  zones: string;
  until: string;
}

export class BudgetsForm extends ListForm<IBudgetFields, IBudgetUse> {
  constructor(private _client: Pick<TPUClient, 'budgets' | 'plans'>) {
    super({
      who: 'agent',
      day: '',
      total: '',
      types: '',
      zones: '',
      until: ''
    });
  }

  /** All of it; null until that is known. */
  get overview(): IBudgetOverview | null {
    return this._overview;
  }

  get complete(): boolean {
    const { day, total, who } = this.filled;
    return !!who.trim() && (+day > 0 || +total > 0);
  }

  /** An event has brought it. */
  update(overview: IBudgetOverview): void {
    this._overview = overview;
    this.changed();
  }

  /** Answers the question whether a plan outside of its budget may be carried out. */
  async answer(plan: string, approve: boolean): Promise<void> {
    await this.send(() => this._client.plans.answer(plan, { approve }));
    await this.load();
  }

  protected async list(): Promise<IBudgetUse[]> {
    return this._take(await this._client.budgets.show());
  }

  protected async add(): Promise<IBudgetUse[]> {
    const { day, total, types, until, who, zones } = this.filled;
    const listed = (text: string) => text.split(/[\s,]+/).filter(Boolean);
    return this._take(
      await this._client.budgets.set({
        who: who.trim(),
        day: +day || null,
        total: +total || null,
        types: listed(types),
        zones: listed(zones),
        until
      })
    );
  }

  protected drop(who: string): Promise<void> {
    return this._client.budgets.remove(who);
  }

  private _take(overview: IBudgetOverview): IBudgetUse[] {
    this._overview = overview;
    return overview.budgets;
  }

  private _overview: IBudgetOverview | null = null;
}

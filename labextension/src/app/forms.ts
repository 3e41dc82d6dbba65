// The forms and lists of the panel's pages. They are loaded when the panel, or the page of a TPU, is
// opened.

import { IForms } from '../actions/panelActions';
import { PackagesForm } from '../environments/packagesForm';
import { ConnectForm } from '../lifecycle/connectForm';
import { CreateDefaults } from '../lifecycle/createDefaults';
import { CreateForm } from '../lifecycle/createForm';
import { QueuedList } from '../lifecycle/queuedList';
import { TPUModel } from '../model/model';
import { BudgetsForm } from '../money/budgetsForm';
import { GrantsForm } from '../money/grantsForm';
import { PriceList } from '../money/priceList';
import { UsageList } from '../money/usageList';
import { IChange } from '../rest/api';
import { TokensForm } from '../setup/tokensForm';

export class Forms implements IForms {
  constructor(
    private _model: TPUModel,
    private _defaults?: CreateDefaults
  ) {
    _model.unlistedChanged.connect((_, { budgets, what }) =>
      budgets
        ? this.budgets.update(budgets)
        : what !== 'session' && this._loadAgain(what)
    );
    _model.operationEnded.connect((_, { kind }) => {
      if (kind === 'queue' || kind === 'unqueue') {
        this._loadAgain('queued');
      }
    });
  }

  readonly create = new CreateForm(this._model, this._defaults);
  readonly connect = new ConnectForm(this._model);
  readonly packages = new PackagesForm(this._model);
  readonly grants = new GrantsForm(this._model.client.grants);
  readonly budgets = new BudgetsForm(this._model.client);
  readonly usage = new UsageList(this._model.client.usage);
  readonly prices = new PriceList(this._model.client.prices);
  readonly queued = new QueuedList(this._model.client.queued);
  readonly tokens = new TokensForm(this._model.client.tokens);
  /** What the pages with lists show, by their names. */
  readonly lists = {
    budgets: this.budgets.list,
    grants: this.grants.list,
    prices: this.prices,
    queued: this.queued,
    tokens: this.tokens.list,
    usage: this.usage
  };

  of<T extends object>(type: new (...args: never[]) => T): T {
    return Object.values(this).find(one => one instanceof type);
  }

  /** Loads what has changed, if it was loaded. */
  private _loadAgain(what: IChange['what']): void {
    const list =
      what === 'prices' || what === 'queued'
        ? this.lists[what]
        : this.grants.list;
    if (what === 'prices' && this._model.catalog) {
      void this._model.loadCatalog(true);
    }
    if (list.value) {
      void list.load();
    }
  }
}

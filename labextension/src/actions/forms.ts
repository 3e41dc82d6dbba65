// The forms and lists of the panel's pages. They are loaded when the panel, or the page of a TPU, is
// opened.

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

export class Forms {
  constructor(
    private _model: TPUModel,
    defaults?: CreateDefaults
  ) {
    const { client } = _model;
    this.create = new CreateForm(_model, defaults);
    this.connect = new ConnectForm(_model);
    this.packages = new PackagesForm(_model);
    this.grants = new GrantsForm(client.grants);
    this.budgets = new BudgetsForm(client);
    this.usage = new UsageList(client.usage);
    this.prices = new PriceList(client.prices);
    this.queued = new QueuedList(client.queued);
    this.tokens = new TokensForm(client.tokens);
    this.lists = {
      budgets: this.budgets.list,
      grants: this.grants.list,
      prices: this.prices,
      queued: this.queued,
      tokens: this.tokens.list,
      usage: this.usage
    };
    _model.unlistedChanged.connect((_, { budgets, what }) =>
      budgets ? this.budgets.update(budgets) : this._loadAgain(what)
    );
    _model.operationEnded.connect((_, { kind }) => {
      if (kind === 'queue' || kind === 'unqueue') {
        this._loadAgain('queued');
      }
    });
  }

  readonly create: CreateForm;
  readonly connect: ConnectForm;
  readonly packages: PackagesForm;
  readonly grants: GrantsForm;
  readonly budgets: BudgetsForm;
  readonly usage: UsageList;
  readonly prices: PriceList;
  readonly queued: QueuedList;
  readonly tokens: TokensForm;
  /** What the pages with lists show, by their names. */
  readonly lists;

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

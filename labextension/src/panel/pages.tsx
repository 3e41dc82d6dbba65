// The pages of the panel beside its list. They are loaded when the first one is opened.

import React from 'react';

import { PackagesPage } from '../environments/packagesPage';
import { ConnectPage } from '../lifecycle/connectPage';
import { CreatePage } from '../lifecycle/createPage';
import { QueuedPage } from '../lifecycle/queuedPage';
import { BudgetsPage } from '../money/budgetsPage';
import { GrantsPage } from '../money/grantsPage';
import { PricesPage } from '../money/pricesPage';
import { UsagePage } from '../money/usagePage';
import { TokensPage } from '../setup/tokensPage';
import { Page } from '../ui/viewState';

const PAGES: { [page in Exclude<Page, 'list'>]: () => JSX.Element } = {
  budgets: BudgetsPage,
  connect: ConnectPage,
  create: CreatePage,
  grants: GrantsPage,
  packages: PackagesPage,
  prices: PricesPage,
  queued: QueuedPage,
  tokens: TokensPage,
  usage: UsagePage
};

export default function Form({ page }: { page: keyof typeof PAGES }) {
  const Shown = PAGES[page];
  return <Shown />;
}

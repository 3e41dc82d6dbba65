// What is asked before something costs money, in words.

import { IQuestion, joined } from '../language/text';
import { trans } from '../language/translation';
import { IHuntCandidate, IQuote, ITPU } from '../rest/api';

const pay = () => trans.__('You pay while it is ready, used or not.');

/** Whether a TPU is created for the price of *quote*, and how that ends. */
export function createQuestion({ hosts, name, tier }: IQuote): IQuestion {
  const end =
    tier === 'spot'
      ? trans.__('Google can preempt it at any time.')
      : tier === 'flex-start'
        ? trans.__('Google deletes it when its run time ends.')
        : hosts > 1
          ? trans.__('Delete it to stop paying.')
          : trans.__('Stop or delete it to stop paying.');
  return {
    title: trans.__('Create %1?', name),
    text: `${pay()} ${end}`,
    accept: trans.__('Create')
  };
}

/** Whether a hunt begins, whose candidates stand between *first* and *text*; *again* and again. */
export function huntQuestion(
  name: string,
  again = false
): IQuestion & { first: string } {
  const more =
    again &&
    trans.__(
      'When it is preempted, another one is created and billed. To create no more TPUs, stop the hunt.'
    );
  return {
    title: trans.__('Hunt for %1?', name),
    first: trans.__('The first of these that is available is created:'),
    text: joined(' ', pay(), more),
    accept: trans.__('Start Hunt')
  };
}

/** Whether a TPU is started, which is billed from then on. */
export function startQuestion({ cost, name }: ITPU): IQuestion {
  return {
    title: trans.__('Start %1?', name),
    text: cost.usd_per_hour === 0 ? '' : pay(),
    accept: trans.__('Start')
  };
}

/** What is agreed to where the prices of *candidates* were shown: the highest, if all are known. */
export function agreedPrice(candidates: readonly IHuntCandidate[]): {
  confirm_price: true;
  max_price: number | null;
} {
  const prices = candidates.map(one => one.cost.usd_per_hour ?? Infinity);
  const most = Math.max(...prices);
  return { confirm_price: true, max_price: most < Infinity ? most : null };
}

// What a new TPU costs, and whether the user agrees to that.

import { confirmCost, confirmHuntCost } from '../money/costDialogs';
import { CreateForm } from './createForm';

/** Whether the user agrees to what the TPU of *form* costs; asks only if there is something to confirm. */
export async function approveCost(form: CreateForm): Promise<boolean> {
  if (form.catalog?.emulated) {
    return true;
  }
  if (form.fields.hunt) {
    return approveHuntCost(form);
  }
  const quote = await form.quote();
  if (!quote || (quote.question && !(await confirmCost(quote)))) {
    return false;
  }
  form.agreed = quote;
  return true;
}

async function approveHuntCost(form: CreateForm): Promise<boolean> {
  const { again, name } = form.fields;
  const all = await form.huntQuote();
  const candidates = all?.filter(one => !one.ruled_out);
  const prices = candidates?.map(one => one.cost.usd_per_hour) ?? [];
  if (
    !candidates ||
    (prices.some(price => price !== 0) &&
      !(await confirmHuntCost(name, again, candidates)))
  ) {
    return false;
  }
  const known = prices.filter((price): price is number => price !== null);
  form.agreedHunt = {
    confirm_price: true,
    max_price: known.length === prices.length ? Math.max(...known) : null
  };
  return true;
}

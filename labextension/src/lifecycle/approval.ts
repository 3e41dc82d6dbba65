// What a new TPU costs, and whether the user agrees to that.

import { confirmCost, confirmHuntCost } from '../money/costDialogs';
import { agreedPrice } from '../money/questionLabels';
import { CreateForm, IAgreement } from './createForm';

/** What the user agrees to pay for the TPU of *form*, asked only if there is something to confirm; else null. */
export async function approveCost(
  form: CreateForm
): Promise<IAgreement | null> {
  if (form.catalog?.emulated) {
    return {};
  }
  if (form.fields.hunt) {
    return approveHuntCost(form);
  }
  const quote = await form.quote();
  const agreed = quote && (!quote.question || (await confirmCost(quote)));
  // What was shown is what may be paid.
  return agreed
    ? { confirm_price: !!quote.question, max_price: quote.cost.usd_per_hour }
    : null;
}

async function approveHuntCost(form: CreateForm): Promise<IAgreement | null> {
  const { again, name } = form.fields;
  const all = await form.huntQuote();
  const candidates = all?.filter(one => !one.ruled_out);
  const prices = candidates?.map(one => one.cost.usd_per_hour) ?? [];
  if (
    !candidates ||
    (prices.some(price => price !== 0) &&
      !(await confirmHuntCost(name, again, candidates)))
  ) {
    return null;
  }
  return agreedPrice(candidates);
}

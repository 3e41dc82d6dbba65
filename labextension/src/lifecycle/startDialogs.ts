// Starting a TPU, which is billed from then on.

import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { confirmStart } from '../money/costDialogs';
import { ITPU } from '../rest/api';
import { confirmed, named } from '../ui/named';

/** Starts a TPU; asks first where it is billed from then on. */
export async function start(
  { model }: IPanelActions,
  tpu: ITPU
): Promise<void> {
  const price = tpu.cost.usd_per_hour;
  if (tpu.emulated || (await confirmStart(tpu))) {
    const title = trans.__('Start %1?', tpu.name);
    await named(tpu, title, trans.__('Start'), name =>
      model.send(tpu, client =>
        client.start(tpu, {
          ...(price !== 0 && { confirm_price: true, max_price: price }),
          ...confirmed(name)
        })
      )
    );
  }
}

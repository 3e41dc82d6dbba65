// Starting a TPU, which is billed from then on.

import { IPanelActions } from '../actions/panelActions';
import { startRequest } from '../model/availableActions';
import { confirmStart } from '../money/costDialogs';
import { startQuestion } from '../money/questionLabels';
import { ITPU } from '../rest/api';
import { confirmed } from '../rest/tpuRef';
import { named } from '../ui/named';

/** Starts a TPU; asks first where it is billed from then on. */
export async function start(
  { model }: IPanelActions,
  tpu: ITPU
): Promise<void> {
  if (tpu.emulated || (await confirmStart(tpu))) {
    const { accept, title } = startQuestion(tpu);
    await named(tpu, title, accept, name =>
      model.send(tpu, client =>
        client.start(tpu, { ...startRequest(tpu), ...confirmed(name) })
      )
    );
  }
}

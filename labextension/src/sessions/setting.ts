// Whether the kernels of a TPU are saved, and where, as a form asks it beside other things.

import { TPUClient } from '../rest/client';
import { ITPU } from '../rest/api';
import { confirmed } from '../rest/tpuRef';
import { ISessionFields } from './sessionForm';

/** Changes only that; the rest of what was chosen stays. *name*: of another person's TPU, as typed. */
export async function keepSetting(
  client: TPUClient,
  tpu: ITPU,
  fields: ISessionFields,
  name: string
): Promise<void> {
  const { sessions: before } = tpu;
  if (!fields.sessions && before) {
    await client.sessions.remove(tpu);
  } else if (fields.sessions && before?.place !== fields.place) {
    await client.sessions.set(tpu, {
      ...before,
      place: fields.place,
      ...confirmed(name)
    });
  }
}

// Choosing one of several TPUs, for a command that is about one.

import { InputDialog } from '@jupyterlab/apputils';

import { trans } from '../language/translation';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';

/** The only TPU, or the one that the user picks. */
export async function chooseTPU(tpus: ITPU[]): Promise<ITPU | undefined> {
  if (tpus.length < 2) {
    return tpus[0];
  }
  const isConnected = (one: ITPU) => one.connection === 'connected';
  const result = await InputDialog.getItem({
    title: trans.__('Select a TPU'),
    // Those in use first.
    items: [
      ...tpus.filter(isConnected),
      ...tpus.filter(one => !isConnected(one))
    ].map(keyOf)
  });
  return tpus.find(tpu => result.button.accept && keyOf(tpu) === result.value);
}

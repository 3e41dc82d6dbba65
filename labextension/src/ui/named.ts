// The question before something is done to what belongs to another person: for its name.

import { InputDialog } from '@jupyterlab/apputils';

import { ITPU } from '../rest/api';
import { namePrompt } from '../rest/tpuRef';

type Owned = Pick<ITPU, 'name' | 'not_yours' | 'owner'>;

/** The name as it was typed, which the server compares: "" for one's own, null if the user declines. */
export async function askName(
  one: Owned,
  title: string,
  okLabel: string
): Promise<string | null> {
  if (!one.not_yours) {
    return '';
  }
  const result = await InputDialog.getText({
    title,
    label: namePrompt(one),
    okLabel,
    required: true
  });
  return result.button.accept ? (result.value ?? '').trim() : null;
}

/** Does *act* with the name that was typed, unless the user declines. */
export async function named(
  one: Owned,
  title: string,
  accept: string,
  act: (name: string) => Promise<unknown>
): Promise<void> {
  const name = await askName(one, title, accept);
  if (name !== null) {
    await act(name);
  }
}

// The question before something is done to what belongs to another person: for its name.

import { InputDialog } from '@jupyterlab/apputils';

import { trans } from '../language/translation';
import { ITPU } from '../rest/api';

type Owned = Pick<ITPU, 'name' | 'not_yours' | 'owner'>;

/** The name as it was typed, which the server compares: "" for one's own, null if the user declines. */
export async function askName(
  { name, not_yours, owner }: Owned,
  title: string,
  okLabel: string
): Promise<string | null> {
  if (!not_yours) {
    return '';
  }
  const result = await InputDialog.getText({
    title,
    label: trans.__('%1 belongs to %2. To continue, type “%1”.', name, owner),
    okLabel,
    required: true
  });
  return result.button.accept ? (result.value ?? '').trim() : null;
}

/** What the server is told of the name, where one is needed. */
export function confirmed(name: string): { confirm_name?: string } {
  return name ? { confirm_name: name } : {};
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

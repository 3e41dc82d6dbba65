// The actions, for all components of a widget.

import { createContext, useContext } from 'react';

import type { Actions } from '../app/actions';
import { ITPU } from '../rest/api';

/** Most components are about one TPU. */
export interface ITPUProps {
  tpu: ITPU;
}

const Context = createContext<Actions | null>(null);

/** Gives the components in it the actions. */
export const ActionsProvider = Context.Provider;

export function useActions(): Actions {
  return useContext(Context)!;
}

// The state of the view, for all components of a widget.

import { createContext, useContext } from 'react';

import type { ViewState } from './viewState';

const Context = createContext<ViewState | null>(null);

/** Gives the components in it the state. */
export const ViewProvider = Context.Provider;

export function useView(): ViewState {
  return useContext(Context)!;
}

// The actions, for all components of a widget.

import React, { createContext, useContext } from 'react';

import { ITPU } from '../rest/api';
import { ViewProvider } from '../ui/useView';
import type { IPanelActions } from './panelActions';

/** Most components are about one TPU. */
export interface ITPUProps {
  tpu: ITPU;
}

const Context = createContext<IPanelActions | null>(null);

/** Gives the components in it the actions, and the state of the view. */
export function ActionsProvider(props: {
  actions: IPanelActions;
  children: React.ReactNode;
}) {
  const { actions, children } = props;
  return (
    <ViewProvider value={actions.view}>
      <Context.Provider value={actions}>{children}</Context.Provider>
    </ViewProvider>
  );
}

export function useActions(): IPanelActions {
  return useContext(Context)!;
}

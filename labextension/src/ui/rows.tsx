// The rows of lists: each a name, a state, buttons and more.

import { closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Tone } from '../language/translation';
import { IconButton } from './elements';
import { StateLabel } from './stateLabel';

interface IRow {
  name: React.ReactNode;
  /** What the name's tooltip says; by default the name. */
  title?: string;
  /** Beside the name; nothing where its label is empty. */
  state?: { label: string; tone: Tone; title?: string };
  buttons?: React.ReactNode;
  /** The last button. */
  remove?: { label: string; disabled?: boolean; run: () => unknown };
  /** Below. */
  more?: React.ReactNode;
}

/** One row. */
export function Row(props: IRow & { children?: React.ReactNode }) {
  const { buttons, children, more, name, remove, state } = props;
  const title = props.title ?? (typeof name === 'string' ? name : undefined);
  return (
    <li className="jp-tpu-Row">
      <span className="jp-tpu-Row-main" title={title}>
        {name}
      </span>
      {state?.label && (
        <StateLabel tone={state.tone} title={state.title}>
          {state.label}
        </StateLabel>
      )}
      {(buttons || remove) && (
        <span className="jp-tpu-Row-buttons">
          {buttons}
          {remove && (
            <IconButton
              icon={closeIcon}
              label={remove.label}
              disabled={remove.disabled}
              onClick={() => void remove.run()}
            />
          )}
        </span>
      )}
      {more && <span className="jp-tpu-Row-more">{more}</span>}
      {children}
    </li>
  );
}

// Small pieces that the panel is made of.

import {
  Button,
  caretDownIcon,
  caretRightIcon,
  LabIcon
} from '@jupyterlab/ui-components';
import React from 'react';

export { StateLabel } from './stateLabel';

export function IconButton(props: {
  icon: LabIcon;
  label: string;
  onClick: (event: React.MouseEvent<HTMLButtonElement>) => void;
  disabled?: boolean;
  hasPopup?: boolean;
}) {
  const { icon, label, onClick, disabled, hasPopup } = props;
  return (
    <Button
      className="jp-tpu-IconButton"
      type="button"
      minimal
      aria-label={label}
      title={label}
      disabled={disabled}
      aria-haspopup={hasPopup ? 'menu' : undefined}
      onClick={onClick}
    >
      <icon.react tag="span" elementSize="normal" />
    </Button>
  );
}

/** A button with words. In a form it sends nothing, unless its type says so. */
export function TextButton(
  props: {
    /** Whether most people want this one. */
    main?: boolean;
    children: React.ReactNode;
  } & React.ButtonHTMLAttributes<HTMLButtonElement>
) {
  const { main, ...others } = props;
  return (
    <Button
      type="button"
      {...others}
      className={main ? 'jp-tpu-Button jp-mod-main' : 'jp-tpu-Button'}
    />
  );
}

/** A button that looks like a link. */
export function Link(props: {
  /** What it is called where its text alone does not say enough. */
  label?: string;
  onClick: () => void;
  children: React.ReactNode;
}) {
  return (
    <button
      type="button"
      className="jp-tpu-Link"
      aria-label={props.label}
      onClick={props.onClick}
    >
      {props.children}
    </button>
  );
}

/** What was found, each with its state in a word. */
export function Findings(props: {
  findings: {
    key: string;
    state: string;
    label: string;
    children: React.ReactNode;
  }[];
}) {
  return (
    <ul className="jp-tpu-Findings">
      {props.findings.map(({ key, state, label, children }) => (
        <li key={key} data-state={state}>
          <strong>{label}</strong>
          <span>{children}</span>
        </li>
      ))}
    </ul>
  );
}

/** A button that shows and hides what it controls. */
export function Disclosure(props: {
  open: boolean;
  controls: string;
  onToggle: () => void;
  className?: string;
  children: React.ReactNode;
}) {
  const Caret = props.open ? caretDownIcon : caretRightIcon;
  return (
    <button
      type="button"
      className={`jp-tpu-Disclosure ${props.className ?? ''}`}
      aria-expanded={props.open}
      aria-controls={props.controls}
      onClick={props.onToggle}
    >
      <Caret.react tag="span" className="jp-tpu-Caret" elementSize="normal" />
      {props.children}
    </button>
  );
}

/** An address in a text, without what ends the sentence. */
const ADDRESS = /(https:\/\/[^\s"'<>()`]*[^\s"'<>()`.,:;])/;

/** Text with `code` in it, which a click selects, and with addresses, which are links. */
export function TextWithCode(props: { text: string }) {
  return (
    <>
      {props.text.split('`').map((part, index) =>
        index % 2 ? (
          <code key={index}>{part}</code>
        ) : (
          part.split(ADDRESS).map((piece, place) =>
            place % 2 ? (
              <a key={place} href={piece} target="_blank" rel="noreferrer">
                {piece}
              </a>
            ) : (
              piece
            )
          )
        )
      )}
    </>
  );
}

/** An error or a warning, what to do about it, and buttons for that. */
export function Alert(props: {
  message: string;
  hint?: string;
  kind?: 'error' | 'warning';
  children?: React.ReactNode;
}) {
  const { message, hint, kind = 'error', children } = props;
  return (
    // Not jp-mod-error: a dialog that has one when something is typed disables its button.
    <div
      className={`jp-tpu-Alert jp-tpu-mod-${kind}`}
      role={kind === 'error' ? 'alert' : 'note'}
    >
      <p className="jp-tpu-Alert-message">
        <TextWithCode text={message} />
      </p>
      {hint && (
        <p className="jp-tpu-Alert-hint">
          <TextWithCode text={hint} />
        </p>
      )}
      {children && <div className="jp-tpu-Buttons">{children}</div>}
    </div>
  );
}

/** A page without content: why, and what to do. */
export function EmptyState(props: {
  title: string;
  text?: string;
  hint?: string;
  busy?: boolean;
  children?: React.ReactNode;
}) {
  return (
    <div className="jp-tpu-EmptyState" role={props.busy ? 'status' : undefined}>
      {props.busy && <span className="jp-tpu-Spinner" aria-hidden="true" />}
      <h3>{props.title}</h3>
      {props.text && (
        <p>
          <TextWithCode text={props.text} />
        </p>
      )}
      {props.hint && (
        <p className="jp-tpu-EmptyState-hint">
          <TextWithCode text={props.hint} />
        </p>
      )}
      {props.children && <div className="jp-tpu-Buttons">{props.children}</div>}
    </div>
  );
}

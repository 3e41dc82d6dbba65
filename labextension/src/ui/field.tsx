// A field of a form.

import React, { useId } from 'react';

/** What connects an input with its label and its help. */
export interface IFieldIds {
  id: string;
  'aria-describedby': string;
  'aria-invalid': boolean;
}

/** A label, its field, and a line of help or why the input is invalid. */
export function Field(props: {
  label: string;
  help?: React.ReactNode;
  problem?: string;
  children: (ids: IFieldIds) => JSX.Element;
}) {
  const { label, help, problem, children } = props;
  const id = useId();
  return (
    <div className={`jp-tpu-Field ${problem ? 'jp-mod-wrong' : ''}`}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-describedby': `${id}help`,
        'aria-invalid': !!problem
      })}
      <small id={`${id}help`} aria-live="polite">
        {problem || help}
      </small>
    </div>
  );
}

/**
 * Whether a number or a date in *part* of a page is half typed: the user is told. Its field has no
 * value then, and is not empty either.
 */
export function reportHalfTyped(part: HTMLElement): boolean {
  const input = [...part.querySelectorAll('input')].find(
    one => one.validity.badInput
  );
  input?.reportValidity();
  return !!input;
}

/** A box to tick. */
export function Check(props: {
  checked: boolean;
  /** One of several of which one is chosen, and their name. */
  group?: string;
  label: string;
  help?: string;
  problem?: string;
  disabled?: boolean;
  onChange: (on: boolean) => void;
}) {
  const { checked, disabled, group, label, onChange, problem } = props;
  const help = problem || props.help;
  return (
    <label className="jp-tpu-Check">
      <input
        type={group ? 'radio' : 'checkbox'}
        name={group}
        disabled={disabled}
        checked={checked}
        aria-invalid={!!problem || undefined}
        onChange={event => onChange(event.target.checked)}
      />
      <span>
        {label}
        {help && <small>{help}</small>}
      </span>
    </label>
  );
}

// A field of a form.

import React, { useId } from 'react';

/** A label, its field, and a line of help or why the input is invalid. */
export function Field(props: {
  label: string;
  help?: string;
  problem?: string;
  children: (attributes: {
    id: string;
    'aria-describedby': string;
    'aria-invalid': boolean;
  }) => JSX.Element;
}): JSX.Element {
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

/** A box to tick. */
export function Check(props: {
  checked: boolean;
  label: string;
  help?: string;
  disabled?: boolean;
  onChange: (on: boolean) => void;
}): JSX.Element {
  const { checked, disabled, help, label, onChange } = props;
  return (
    <label className="jp-tpu-Check">
      <input
        type="checkbox"
        disabled={disabled}
        checked={checked}
        onChange={event => onChange(event.target.checked)}
      />
      <span>
        {label}
        {help && <small>{help}</small>}
      </span>
    </label>
  );
}

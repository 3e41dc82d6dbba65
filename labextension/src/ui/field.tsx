// A field of a form.

import React, {
  InputHTMLAttributes,
  RefObject,
  TextareaHTMLAttributes,
  useId
} from 'react';

/** A label, its field, and a line of help or why the input is invalid. */
export function Field(props: {
  label: string;
  help?: React.ReactNode;
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
  disabled?: boolean;
  onChange: (on: boolean) => void;
}): JSX.Element {
  const { checked, disabled, group, help, label, onChange } = props;
  return (
    <label className="jp-tpu-Check">
      <input
        type={group ? 'radio' : 'checkbox'}
        name={group}
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

/** A field for one line of text. */
export function TextField(
  props: {
    label: string;
    help?: string;
    problem?: string;
    input?: RefObject<HTMLInputElement>;
    onChange: (value: string) => void;
  } & Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'>
): JSX.Element {
  const { help, input, label, onChange, problem, ...others } = props;
  return (
    <Field label={label} help={help} problem={problem}>
      {attributes => (
        // JupyterLab disables a dialog's button while a field is invalid.
        <input
          {...attributes}
          ref={input}
          className="jp-mod-styled"
          spellCheck={false}
          {...others}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

/** A field for lines of text that are not prose. */
export function TextArea(
  props: {
    label: string;
    help?: string;
    problem?: string;
    onChange: (value: string) => void;
  } & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'onChange'>
): JSX.Element {
  const { help, label, onChange, problem, ...others } = props;
  return (
    <Field label={label} help={help} problem={problem}>
      {attributes => (
        <textarea
          {...attributes}
          className="jp-mod-styled"
          spellCheck={false}
          {...others}
          onChange={event => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

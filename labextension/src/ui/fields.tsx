// Fields as a table: what a form or a dialog asks for, and the one way in which that is drawn.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { InputHTMLAttributes, isValidElement, RefObject } from 'react';

import { ITPU } from '../rest/api';
import { TextButton } from './elements';
import { Check, Field, TextArea, TextField } from './field';
import { trans } from './translation';

/** A value, its label, and a line of help. */
export type Choice = readonly [string | number, string, string?];

/** Where a path is looked up: on the computer that runs Jupyter, or on a host of a TPU. */
export interface IPlace {
  tpu?: ITPU;
  host?: number;
  /** Only folders. */
  folder?: boolean;
}

type Attributes = Pick<
  InputHTMLAttributes<HTMLInputElement>,
  | 'autoComplete'
  | 'autoFocus'
  | 'disabled'
  | 'list'
  | 'max'
  | 'min'
  | 'placeholder'
  | 'required'
  | 'step'
>;

/** A field for a value of *T* with this name. */
export interface IField<T extends object> extends Attributes {
  name: keyof T & string;
  label: string;
  help?: React.ReactNode;
  /** Without it: a line of text. */
  kind?:
    | 'area'
    | 'check'
    | 'date'
    | 'datetime-local'
    | 'files'
    | 'number'
    | 'path'
    | 'port'
    | 'radio'
    | 'search'
    | 'select'
    /** Several choices can be ticked: the value is a list. */
    | 'ticks';
  choices?: readonly Choice[];
  /** What a select or a box shows instead of its value. */
  shown?: string | boolean;
  /** Why what was entered is invalid. */
  problem?: string;
  /** Of an area. */
  rows?: number;
  /** Of a path. */
  place?: IPlace;
  input?: RefObject<HTMLInputElement>;
}

/** Fields in their order; what is falsy is left out, and elements stand between fields. */
export type FieldList<T extends object> = readonly (
  IField<T> | JSX.Element | false | '' | null | undefined
)[];

/** Draws fields. */
export function Fields<T extends object>(props: {
  fields: FieldList<T>;
  values: T;
  onChange: <K extends keyof T>(name: K, value: T[K]) => void;
  /** Why the server refused a field. */
  problemOf?: (name: keyof T) => string;
  /** Looks a path up; without it there is no button for that. */
  onBrowse?: (field: IField<T>) => void;
}): JSX.Element {
  const { fields, onBrowse, onChange, problemOf, values } = props;
  return (
    <>
      {fields.map((field, index) =>
        !field ? null : isValidElement(field) ? (
          <React.Fragment key={index}>{field}</React.Fragment>
        ) : (
          <Drawn
            key={(field as IField<T>).name}
            field={field as IField<T> as IField<object>}
            value={values[(field as IField<T>).name]}
            problem={
              (field as IField<T>).problem ||
              problemOf?.((field as IField<T>).name)
            }
            onChange={value =>
              onChange((field as IField<T>).name, value as T[keyof T])
            }
            onBrowse={onBrowse && (() => onBrowse(field as IField<T>))}
          />
        )
      )}
    </>
  );
}

function Drawn(props: {
  field: IField<object>;
  value: unknown;
  problem?: string;
  onChange: (value: unknown) => void;
  onBrowse?: () => void;
}): JSX.Element {
  const { field, onBrowse, onChange, problem, value } = props;
  const {
    choices = [],
    help,
    input,
    kind,
    label,
    name,
    rows,
    shown,
    ...others
  } = field;
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- They are not of the input.
  const { place, problem: own, ...attributes } = others;
  const chosen = (text: string) =>
    onChange(typeof value === 'number' ? Number(text) : text);
  switch (kind) {
    case 'check':
      return (
        <Check
          checked={(shown ?? value) as boolean}
          label={label}
          help={help as string}
          disabled={attributes.disabled}
          onChange={onChange}
        />
      );
    case 'radio':
    case 'ticks':
      return choices.length === 0 ? (
        <></>
      ) : (
        <fieldset>
          <legend>{label}</legend>
          {choices.map(([one, text, more]) => (
            <Check
              key={one}
              group={kind === 'radio' ? `jp-tpu-${name}` : undefined}
              checked={
                kind === 'radio'
                  ? value === one
                  : (value as unknown[]).includes(one)
              }
              label={text}
              help={more}
              onChange={on =>
                onChange(
                  kind === 'radio'
                    ? one
                    : on
                      ? [...(value as unknown[]), one]
                      : (value as unknown[]).filter(other => other !== one)
                )
              }
            />
          ))}
        </fieldset>
      );
    case 'select':
      return (
        <Field label={label} help={help} problem={problem}>
          {ids => (
            <HTMLSelect
              {...ids}
              disabled={attributes.disabled}
              value={(shown ?? value) as string}
              onChange={event => chosen(event.target.value)}
            >
              {choices.map(([one, text]) => (
                <option key={one} value={one}>
                  {text}
                </option>
              ))}
            </HTMLSelect>
          )}
        </Field>
      );
    case 'area':
      return (
        <TextArea
          label={label}
          help={help as string}
          problem={problem}
          rows={rows}
          disabled={attributes.disabled}
          placeholder={attributes.placeholder}
          autoFocus={attributes.autoFocus}
          value={value as string}
          onChange={onChange}
        />
      );
    case 'files':
      return (
        <Field label={label} help={help} problem={problem}>
          {ids => (
            <input
              {...ids}
              {...attributes}
              type="file"
              multiple
              onChange={event => onChange([...(event.target.files ?? [])])}
            />
          )}
        </Field>
      );
    case 'port':
      return (
        <Field label={label} help={help} problem={problem}>
          {ids => (
            // JupyterLab disables the dialog's button while a field is invalid.
            <input
              {...ids}
              {...attributes}
              className="jp-mod-styled"
              type="number"
              min={1}
              max={65535}
              defaultValue={value as string}
              onChange={({ target }) =>
                // What is no number has no value, but is no empty field either.
                onChange(target.validity.badInput ? '?' : target.value.trim())
              }
            />
          )}
        </Field>
      );
    default: {
      const text = (
        <TextField
          label={label}
          help={help as string}
          problem={problem}
          input={input}
          type={kind === 'path' ? 'text' : kind}
          {...attributes}
          value={value as string}
          onChange={onChange}
        />
      );
      return kind === 'path' && onBrowse ? (
        <div className="jp-tpu-PathField">
          {text}
          <TextButton
            aria-label={trans.__('Browse: %1', label)}
            onClick={onBrowse}
          >
            {trans.__('Browse…')}
          </TextButton>
        </div>
      ) : (
        text
      );
    }
  }
}

/** A form whose fields are these, or have more. */
export interface IFieldForm<T extends object> {
  fields: T;
  set<K extends keyof T>(name: K, value: T[K]): void;
  problemOf(name: keyof T): string;
}

/** Draws fields of a form. */
export function FormFields<T extends object>(props: {
  form: IFieldForm<T>;
  fields: FieldList<T>;
}): JSX.Element {
  const { fields, form } = props;
  return (
    <Fields
      fields={fields}
      values={form.fields}
      problemOf={name => form.problemOf(name)}
      onChange={(name, value) => form.set(name, value)}
    />
  );
}

/** The choice of a host, where there are several. */
export function hostField<T extends { host: number }>(
  tpu: ITPU
): IField<T> | false {
  return (
    tpu.hosts.length > 1 && {
      name: 'host',
      label: trans.__('Host'),
      kind: 'select',
      choices: tpu.hosts.map((_, index) => [index, trans.__('Host %1', index)])
    }
  );
}

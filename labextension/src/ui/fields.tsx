// Fields as a table: what a form or a dialog asks for, and the one way in which that is drawn.

import { HTMLSelect } from '@jupyterlab/ui-components';
import React, {
  InputHTMLAttributes,
  isValidElement,
  RefObject,
  useState
} from 'react';

import { trans } from '../language/translation';
import { ITPU } from '../rest/api';
import { TextButton } from './elements';
import { Check, Field, IFieldIds } from './field';
import { AS_TYPED, ITyped } from './typed';

/** A value, its label, and a line of help. */
export type Choice = readonly [string | number | null, string, string?];

/** Where a path is looked up: on the computer that runs Jupyter, or on a host of a TPU. */
export interface IPlace {
  tpu?: ITPU;
  host?: number;
  /** Only folders. */
  folder?: boolean;
}

/** What a field's input has as it is. */
const ATTRIBUTES = [
  'autoComplete',
  'autoFocus',
  'disabled',
  'list',
  'max',
  'min',
  'placeholder',
  'required',
  'step'
] as const;

type Attributes = Pick<
  InputHTMLAttributes<HTMLInputElement>,
  (typeof ATTRIBUTES)[number]
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
  /** How its value is typed, where that is no text. */
  typed?: ITyped;
  /** What a select or a box shows instead of its value. */
  shown?: string | boolean;
  /** Why what was entered is invalid. */
  problem?: string;
  /** Another field of the same value says why the server refused it. */
  quiet?: boolean;
  /** The lines of an area. */
  rows?: number;
  /** Where a path is. */
  place?: IPlace;
  input?: RefObject<HTMLInputElement>;
}

/** Fields in their order; what is falsy is left out, and elements stand between fields. */
export type FieldList<T extends object> = readonly (
  IField<T> | JSX.Element | false | '' | null | undefined
)[];

/** Whether it is a field, and no element between fields. */
function isField<T extends object>(
  field: FieldList<T>[number]
): field is IField<T> {
  return !!field && !isValidElement(field);
}

/** The names of the fields in a list. */
export function namesOf<T extends object>(fields: FieldList<T>): (keyof T)[] {
  return fields.filter(isField).map(({ name }) => name);
}

/** A form whose fields are these, or have more. */
export interface IFieldForm<T extends object> {
  fields: T;
  set<K extends keyof T>(name: K, value: T[K]): void;
  /** Why the server refused a field. */
  problemOf(name: keyof T): string;
}

/** Draws fields of a form. */
export function FormFields<T extends object>(props: {
  form: IFieldForm<T>;
  fields: FieldList<T>;
  /** Looks a path up; without it there is no button for that. */
  onBrowse?: (field: IField<T>) => void;
}) {
  const { fields, form, onBrowse } = props;
  return (
    <>
      {fields.map((field, index) =>
        isField(field) ? (
          <Drawn
            key={`${field.name} ${field.kind}`}
            field={field as IField<object>}
            value={form.fields[field.name]}
            problem={
              field.problem || (field.quiet ? '' : form.problemOf(field.name))
            }
            onChange={value => form.set(field.name, value as T[keyof T])}
            onBrowse={onBrowse && (() => onBrowse(field))}
          />
        ) : (
          <React.Fragment key={index}>{field}</React.Fragment>
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
}) {
  const { field, onBrowse, onChange, problem, value } = props;
  const { choices = [], disabled, help, kind, label, name, shown } = field;
  switch (kind) {
    case 'check':
      return (
        <Check
          checked={(shown ?? value) as boolean}
          label={label}
          help={help as string}
          problem={problem}
          disabled={disabled}
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
          {choices.map(([one, text, more], index) => (
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
              problem={index === 0 ? problem : undefined}
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
    default: {
      const control = (
        <Field label={label} help={help} problem={problem}>
          {ids => <Control {...{ field, ids, onChange, value }} />}
        </Field>
      );
      return kind === 'path' && onBrowse ? (
        <div className="jp-tpu-PathField">
          {control}
          <TextButton
            aria-label={trans.__('Browse: %1', label)}
            onClick={onBrowse}
          >
            {trans.__('Browse…')}
          </TextButton>
        </div>
      ) : (
        control
      );
    }
  }
}

/** What a field with a label above it is filled in with. */
function Control(props: {
  field: IField<object>;
  ids: IFieldIds;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const { field, ids, onChange, value } = props;
  const { choices = [], disabled, input, kind, rows, shown } = field;
  const [text, type] = useText(value, onChange, field.typed);
  const common = { ...ids, className: 'jp-mod-styled', spellCheck: false };
  const attributes: Attributes = Object.fromEntries(
    ATTRIBUTES.map(name => [name, field[name]])
  );
  switch (kind) {
    case 'select':
      return (
        <HTMLSelect
          {...ids}
          disabled={disabled}
          value={String(shown ?? value ?? '')}
          onChange={({ target }) => onChange(choices[target.selectedIndex][0])}
        >
          {choices.map(([one, label]) => (
            <option key={one} value={one ?? ''}>
              {label}
            </option>
          ))}
        </HTMLSelect>
      );
    case 'area':
      return (
        <textarea
          {...common}
          rows={rows}
          disabled={disabled}
          placeholder={field.placeholder}
          autoFocus={field.autoFocus}
          value={text}
          onChange={({ target }) => type(target.value)}
        />
      );
    case 'files':
      return (
        <input
          {...ids}
          {...attributes}
          type="file"
          multiple
          onChange={({ target }) => onChange([...(target.files ?? [])])}
        />
      );
    case 'port':
      return (
        <input
          {...common}
          {...attributes}
          type="number"
          min={1}
          max={65535}
          defaultValue={value as string}
          onFocus={({ target }) => target.select()} // what is typed replaces it
          onChange={({ target }) =>
            // What is no number has no value, but is no empty field either.
            onChange(target.validity.badInput ? '?' : target.value.trim())
          }
        />
      );
    default:
      // JupyterLab disables a dialog's button while a field is invalid.
      return (
        <input
          {...common}
          {...attributes}
          ref={input}
          type={kind === 'path' ? 'text' : kind}
          value={text}
          onFocus={({ target }) => kind === 'number' && target.select()}
          onChange={({ target }) => type(target.value)}
        />
      );
  }
}

/** The text of a value, and what is called when another text is typed: it stays as it was typed. */
function useText(
  value: unknown,
  onChange: (value: unknown) => void,
  typed: ITyped = AS_TYPED
): [text: string, type: (text: string) => void] {
  const [draft, setDraft] = useState('');
  const isDraft = JSON.stringify(typed.value(draft)) === JSON.stringify(value);
  const type = (text: string) => {
    setDraft(text);
    onChange(typed.value(text));
  };
  return [isDraft ? draft : typed.text(value as never), type];
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

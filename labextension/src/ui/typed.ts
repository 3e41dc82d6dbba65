// How values are typed: a field has the server's value, and its input the text that a person types.

import { IDataDisk } from '../rest/api';

/** A value as a text, and the value of a text. */
export interface ITyped {
  text: (value: never) => string;
  value: (text: string) => unknown;
}

const asIs = (text: string) => text;

export const AS_TYPED = { text: asIs, value: asIs };

/** Text without the blanks around it. */
export const TRIMMED = { text: asIs, value: (text: string) => text.trim() };

/** The same; null where nothing is typed, for which the server has a default. */
export const OPTIONAL = {
  text: (value: string | null) => value ?? '',
  value: (text: string) => text.trim() || null
};

/** Text of several lines, with its blanks; empty where there is nothing else. */
export const SCRIPT = {
  text: asIs,
  value: (text: string) => (text.trim() ? text : '')
};

/** A number; null where nothing is typed. */
export const NUMBER = {
  text: (value: number | null) => String(value ?? ''),
  value: (text: string) => (text ? Number(text) : null)
};

/** A time, RFC 3339, as a field for dates and times of this computer has it. */
export const LOCAL_TIME = {
  text: (time: string) => {
    const date = new Date(time);
    const local = date.getTime() - date.getTimezoneOffset() * 60_000;
    return time
      ? new Date(local).toISOString().slice(0, 'yyyy-mm-ddThh:mm'.length)
      : '';
  },
  value: (text: string) => (text ? new Date(text).toISOString() : '')
};

/** Words of which each is a *T*. */
function wordsOf<T>(word: (one: T) => string, value: (word: string) => T) {
  return {
    text: (values: readonly T[]) => values.map(word).join(' '),
    value: (text: string) => namesIn(text).map(value)
  };
}

export const WORDS = wordsOf<string>(asIs, asIs);

/** Pairs: "team=vision". */
const PAIR_WORDS = wordsOf<[string, string]>(
  pair => pair.join('='),
  word => {
    const [key, ...rest] = word.split('=');
    return [key, rest.join('=')];
  }
);
export const PAIRS = {
  text: (pairs: Record<string, string>) =>
    PAIR_WORDS.text(Object.entries(pairs)),
  value: (text: string) => Object.fromEntries(PAIR_WORDS.value(text))
};

/** Disks: their names, "NAME:ro" for one that is only read. */
export const DISKS = wordsOf<IDataDisk>(
  ({ mode, source }) => source + (mode === 'read-only' ? ':ro' : ''),
  word => ({
    source: word.replace(/:ro$/, ''),
    mode: word.endsWith(':ro') ? 'read-only' : 'read-write'
  })
);

/** The names in a text, separated by commas, spaces or lines. */
function namesIn(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** Those of *fields* that *empty* has; undefined if all are empty. */
export function given<T extends object>(
  fields: NoInfer<T>,
  empty: T
): T | undefined {
  const values = Object.keys(empty).map(
    name => [name, fields[name as keyof T]] as const
  );
  return values.some(([, value]) => isGiven(value))
    ? (Object.fromEntries(values) as T)
    : undefined;
}

function isGiven(value: unknown): boolean {
  return typeof value === 'object' && value
    ? Object.keys(value).length > 0
    : !!value;
}

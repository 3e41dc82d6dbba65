// The extension's strings in the user's language, and what they are made of. What the server says comes
// in the language that it is asked for.

import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';

import { isolated } from './isolated';

/** Puts *values* in for %1, %2 … */
function filled(text: string, values: unknown[]): string {
  return text.replace(/%(\d)/g, (whole, digit) =>
    String(values[Number(digit) - 1] ?? whole)
  );
}

/** Texts, and their translations in each plural form. */
type Catalogue = Record<string, string[] | undefined>;

type Strings = Pick<TranslationBundle, '__' | '_n'>;

let loaded: Strings = {
  __: (text, ...values) => filled(text, values),
  _n: (one, many, count, ...values) =>
    filled(count === 1 ? one : many, [count, ...values])
};

/** Names that are written from right to left turn nothing around. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- as in JupyterLab's own signature
function isolatedAll(values: unknown[]): any[] {
  return values.map(value =>
    typeof value === 'string' ? isolated(value) : value
  );
}

/**
 * The strings: in English until `loadTranslation` or `loadCatalogue` has others. One page has one
 * language.
 */
export const trans: Strings = {
  __: (text, ...values) => loaded.__(text, ...isolatedAll(values)),
  _n: (one, many, count, ...values) =>
    loaded._n(one, many, count, ...isolatedAll(values))
};

/** The language of dates and numbers, and that the server is asked for: a BCP 47 tag. */
export let language = 'en';

/** Takes the user's language; each plugin does, since any of them may be the first. */
export function loadTranslation(translator: ITranslator | null): void {
  if (translator) {
    // eslint-disable-next-line jupyter/incorrect-translator-usage -- `trans` below is what strings use.
    loaded = translator.load('jupyter_tpu');
    const code = translator.languageCode.replace('_', '-');
    language = code === 'default' ? 'en' : code;
  }
}

/** Takes texts of the language *code*, a BCP 47 tag, where JupyterLab is not there to load them. */
export function loadCatalogue(catalogue: Catalogue, code: string): void {
  const known = (text: string) => catalogue[text]?.[0] ?? text;
  loaded = {
    __: (text, ...values) => filled(known(text), values),
    _n: (one, many, count, ...values) =>
      filled(catalogue[one]?.[0] ?? (count === 1 ? one : many), [
        count,
        ...values
      ])
  };
  language = code;
}

/** How a state looks: the dot beside its label. */
export type Tone = 'good' | 'moving' | 'quiet' | 'bad';

/** "3 min ago"; "" for an unknown time. */
export function ago(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  if (Number.isNaN(seconds)) {
    return '';
  }
  const units: [Intl.RelativeTimeFormatUnit, number][] = [
    ['day', 86400],
    ['hour', 3600],
    ['minute', 60]
  ];
  const [unit, size] = units.find(([, one]) => -seconds >= one) ?? [
    'second',
    1
  ];
  return new Intl.RelativeTimeFormat(language, {
    numeric: 'auto',
    style: 'short'
  }).format(Math.round(Math.min(seconds, 0) / size), unit);
}

/**
 * A time, RFC 3339, as everything here says it: "14:03", with the day if that is not today, and with
 * the year if that is not this one.
 */
export function clock(time: string, now = new Date()): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) {
    return time;
  }
  const today = date.toDateString() === now.toDateString();
  const sameYear = date.getFullYear() === now.getFullYear();
  return date.toLocaleString(language, {
    ...(today ? {} : { day: 'numeric', month: 'short' }),
    ...(sameYear ? {} : { year: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit'
  });
}

/** "$9.60", "$12,345". */
export function usd(amount: number): string {
  const digits = amount < 1000 ? 2 : 0;
  return amount.toLocaleString(language, {
    style: 'currency',
    currency: 'USD',
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits
  });
}

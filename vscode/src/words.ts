// The strings of the panel, which takes them from a bundle of JupyterLab's: here they are English.

import { TranslationBundle } from '@jupyterlab/translation';

/** Puts *values* in for %1, %2 … */
function filled(text: string, values: unknown[]): string {
  return text.replace(/%(\d)/g, (whole, digit) =>
    String(values[Number(digit) - 1] ?? whole)
  );
}

export const words = {
  __: (text: string, ...values: unknown[]) => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    filled(count === 1 ? one : many, [count, ...values])
} as unknown as TranslationBundle;

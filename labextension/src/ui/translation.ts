// The extension's strings in the user's language, and what they are made of.

import {
  ITranslator,
  nullTranslator,
  TranslationBundle
} from '@jupyterlab/translation';

export function loadTranslation(
  translator: ITranslator | null
): TranslationBundle {
  return (translator ?? nullTranslator).load('jupyter_tpu');
}

/** How a state looks: the dot beside its label. */
export type Tone = 'good' | 'moving' | 'quiet' | 'bad';

/** "3 min ago"; "" for an unknown time. */
export function ago(time: string, now: number, language: string): string {
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

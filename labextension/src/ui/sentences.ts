// English sentences of the server in the user's language. The server sends whole sentences; the keys of
// a catalogue are their templates: "{tpu} is not READY." A sentence is matched with the templates, and
// what stands for a parameter is put into the translation: as it is, or translated, if it is a sentence
// or a label itself. Several sentences are translated one by one. What nothing matches stays English.
// jupyter_tpu/commands/sentences.py does the same for the command line.

import { isolated } from './translation';

/** A text with parameters. */
interface ITemplate {
  /** What stands before, between and behind the parameters. */
  literals: string[];
  parameters: string[];
  translation: string;
  /** Number of literal characters, and whether there are three words among them. */
  size: number;
  specific: boolean;
}

/** A translation, and how many characters of the English text it is sure of. */
interface ITranslated {
  text: string;
  score: number;
}

/** JupyterLab's catalogue of one domain: a text, and its translation in each plural form. */
export type Catalogue = Record<string, string[]>;

const PARAMETER = /%(\d)|\{(\w+)\}/g;
const WORD = /[\p{L}\p{N}_]{3,}/gu;
/** What stands between sentences, or between the parts of a line. */
const SEPARATOR = /((?<=[.?!])\s+|\s·\s|\n)/;
/** Four words or more that no template knows. */
const PROSE = /(?:\b[a-z]{2,}[ ,]+){4}/;
/** A name before a text, and a note behind it. */
const FRAME = /^(?:([\w.~/-]+(?: \d+)?): )?(.+?)(?: \(([^()]+)\))?$/s;
/** How deep sentences may stand in sentences, and how many may follow one another. */
const MOST_DEPTH = 3;
const MOST_PARTS = 10;
const LONGEST = 4000;
const MOST_KEPT = 1000;

export class Sentences {
  constructor(private _catalogue: Catalogue) {}

  /** *text* in the catalogue's language, as far as it is known there. */
  translate(text: string): string {
    let known = this._kept.get(text);
    if (known === undefined) {
      known =
        text.length > LONGEST ? text : (this._best(text, 0)?.text ?? text);
      if (this._kept.size >= MOST_KEPT) {
        this._kept.clear();
      }
      this._kept.set(text, known);
    }
    return known;
  }

  private _best(text: string, depth: number): ITranslated | null {
    const [, before, core, after] = /^(\s*)(.*?)(\s*)$/s.exec(text)!;
    if (!/[A-Za-z]{2}/.test(core)) {
      return null;
    }
    const whole = this._one(core, depth);
    const parts =
      whole?.score === core.length ? null : this._parts(core, depth);
    const best = better(whole, parts);
    return best && { ...best, text: before + best.text + after };
  }

  /** Translates *text* as one sentence or label. */
  private _one(text: string, depth: number): ITranslated | null {
    const capital = text[0].toUpperCase() + text.slice(1);
    const ended = /[.?!:…]$/.test(text);
    const variants = new Set([text, capital]);
    let best: ITranslated | null = null;
    for (const variant of variants) {
      best ??= this._exact(variant) ?? this._match(variant, depth);
      if (!best && !ended) {
        const sentence =
          this._exact(`${variant}.`) ?? this._match(`${variant}.`, depth);
        best = sentence && {
          score: sentence.score - 1,
          text: sentence.text.replace(/[.。]$/, '')
        };
      }
    }
    return best ?? this._framed(text, depth);
  }

  /** "my-tpu: Installing JAX", "Installing JAX (2 of 4 hosts)": each part by itself. */
  private _framed(text: string, depth: number): ITranslated | null {
    const [, ...parts] = FRAME.exec(text) ?? [];
    if (depth >= MOST_DEPTH || !(parts[0] || parts[2])) {
      return null;
    }
    const known = parts.map(part =>
      part ? this._best(part, depth + 1) : null
    );
    const score = known.reduce((sum, one) => sum + (one?.score ?? 0), 0);
    const [name, main, note] = parts.map(
      (part, index) => known[index]?.text ?? part
    );
    const line = `${name ? `${name}: ` : ''}${main}${note ? ` (${note})` : ''}`;
    return score ? { text: line, score } : null;
  }

  private _exact(text: string): ITranslated | null {
    const forms: unknown = this._catalogue[text]; // "constructor" is no text of it
    const translation = Array.isArray(forms) ? String(forms[0]) : '';
    return translation
      ? {
          text: translation,
          score: text.length
        }
      : null;
  }

  /** The translation by the template of which *text* has most. */
  private _match(text: string, depth: number): ITranslated | null {
    let best: ITranslated | null = null;
    for (const template of this._candidates(text)) {
      const values = valuesOf(template, text);
      best = better(best, values && this._fill(template, values, depth));
    }
    return best;
  }

  private _fill(
    template: ITemplate,
    values: string[],
    depth: number
  ): ITranslated | null {
    let score = template.size;
    const filled = new Map<string, string>();
    for (const [index, value] of values.entries()) {
      const known = depth < MOST_DEPTH ? this._best(value, depth + 1) : null;
      if (!known && !template.specific && PROSE.test(value)) {
        return null; // A few words around an English text don't help.
      }
      score += known?.score ?? 0;
      filled.set(template.parameters[index], known?.text ?? isolated(value));
    }
    const text = template.translation.replace(
      PARAMETER,
      (whole, digit, name) => filled.get(digit ?? name) ?? whole
    );
    return { text, score };
  }

  /** Translates the sentences of *text*, each by itself or together with its neighbours. */
  private _parts(text: string, depth: number): ITranslated | null {
    const pieces = text.split(SEPARATOR);
    const count = (pieces.length + 1) / 2;
    if (count === 1) {
      return null;
    }
    // From the last one: the best translation of all from here on.
    const rest: ITranslated[] = new Array(count + 1);
    rest[count] = { text: '', score: 0 };
    for (let from = count - 1; from >= 0; from--) {
      for (let to = from + 1; to <= Math.min(count, from + MOST_PARTS); to++) {
        if (to - from === count) {
          break; // That is the whole text.
        }
        const own = pieces.slice(2 * from, 2 * to - 1).join('');
        const known = own ? this._one(own, depth) : null;
        if (!known && to > from + 1) {
          continue;
        }
        const separator = to < count ? pieces[2 * to - 1] : '';
        const score = (known?.score ?? 0) + rest[to].score;
        if (!rest[from] || score > rest[from].score) {
          const text = joined(known?.text ?? own, separator, rest[to].text);
          rest[from] = { text, score };
        }
      }
    }
    return rest[0].score ? rest[0] : null;
  }

  /** The templates of which *text* has the rarest word. */
  private _candidates(text: string): ITemplate[] {
    this._index ??= indexOf(this._catalogue);
    const words = new Set(['', ...(text.match(WORD) ?? [])]);
    return [...words].flatMap(word => this._index!.get(word) ?? []);
  }

  private _index?: Map<string, ITemplate[]>;
  private _kept = new Map<string, string>();
}

function better(
  one: ITranslated | null,
  other: ITranslated | null
): ITranslated | null {
  return other && (!one || other.score > one.score) ? other : one;
}

/** Chinese and Japanese have no blank behind a full stop. */
function joined(before: string, separator: string, after: string): string {
  const close = /[。？！：；]$/.test(before) && /^ +$/.test(separator);
  return before + (close ? '' : separator) + after;
}

/** What *text* has for the parameters of a template; null if it is not of that form. */
function valuesOf(template: ITemplate, text: string): string[] | null {
  const { literals, parameters } = template;
  const last = literals.length - 1;
  const end = text.length - literals[last].length;
  if (!text.startsWith(literals[0]) || !text.endsWith(literals[last])) {
    return null;
  }
  const values: string[] = [];
  let at = literals[0].length;
  for (let index = 1; index <= last; index++) {
    const next = index === last ? end : text.indexOf(literals[index], at);
    if (
      next < at ||
      next + literals[index].length > (index === last ? text.length : end)
    ) {
      return null;
    }
    values.push(text.slice(at, next));
    at = next + literals[index].length;
  }
  // One that stands twice is the same in both places.
  const same = values.every(
    (value, index) => value === values[parameters.indexOf(parameters[index])]
  );
  return same ? values : null;
}

function templateOf(text: string, translation: string): ITemplate | null {
  const pieces = text.split(PARAMETER);
  const literals: string[] = [];
  const parameters: string[] = [];
  for (let index = 0; index < pieces.length; index += 3) {
    literals.push(pieces[index]);
    if (index + 1 < pieces.length) {
      parameters.push(pieces[index + 1] ?? pieces[index + 2]);
    }
  }
  const words = literals.join(' ').match(/[A-Za-z]{2,}/g) ?? [];
  const letters = words.join('').length;
  if (!parameters.length || letters < 4) {
    return null;
  }
  const size = literals.join('').length;
  return {
    literals,
    parameters,
    translation,
    size,
    specific: words.length > 2
  };
}

/** The templates by the word of theirs that the fewest others have; "" where none has a whole word. */
function indexOf(catalogue: Catalogue): Map<string, ITemplate[]> {
  const templates: [ITemplate, string[]][] = [];
  const frequency = new Map<string, number>();
  for (const [text, forms] of Object.entries(catalogue)) {
    // Its head, under "", is no translation.
    const template = text && forms[0] ? templateOf(text, forms[0]) : null;
    if (template) {
      const words = wholeWords(template.literals);
      templates.push([template, words]);
      for (const word of words) {
        frequency.set(word, (frequency.get(word) ?? 0) + 1);
      }
    }
  }
  const index = new Map<string, ITemplate[]>();
  for (const [template, words] of templates) {
    let rarest = words[0] ?? '';
    for (const word of words) {
      if (frequency.get(word)! < frequency.get(rarest)!) {
        rarest = word;
      }
    }
    const others = index.get(rarest);
    if (others) {
      others.push(template);
    } else {
      index.set(rarest, [template]);
    }
  }
  return index;
}

/** Words that no parameter can be a part of. */
function wholeWords(literals: string[]): string[] {
  const marked = literals.join('\u0000');
  return [...marked.matchAll(WORD)]
    .filter(
      ({ 0: word, index }) =>
        marked[index - 1] !== '\u0000' &&
        marked[index + word.length] !== '\u0000'
    )
    .map(([word]) => word);
}

// English sentences of the server in the user's language. The server sends whole sentences; the keys of
// a catalogue are their templates: "{tpu} is not READY." A sentence is matched with the templates, and
// what stands for a parameter is put into the translation: as it is, or translated, if it is a sentence
// or a label itself. Several sentences are translated one by one. What nothing matches stays English.
// jupyter_tpu/terminal/sentences.py does the same for the command line.

import { isolated } from './isolated';

/** A text with parameters. */
interface ITemplate {
  /** What stands before, between and behind the parameters. */
  literals: string[];
  parameters: string[];
  translation: string;
  /** Number of literal characters. */
  size: number;
  /** Parameters that are numbers, and those that may be what other programs say. */
  numbers: string[];
  messages: Set<string>;
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
/** English that no template knows: it has such a word among others, or is a pronoun. */
const WORDS =
  'a|all|an|and|are|at|be|by|can|for|from|had|has|have|if|in|is|it|its|no|not|of|on|or|than|that|' +
  'the|them|they|this|to|was|were|when|which|who|with|without';
const ENGLISH = new RegExp(
  `(?:^|(?<=[ (]))(?:${WORDS})(?=[ .,;)])|[ (](?:${WORDS})$|^(?:all|it|them)$`
);
/** What is quoted, or follows a colon, may be English: other programs' messages. */
const QUOTED = /[:：].*|[“「‘"'`].*?[”」’"'`]/gs;
/** Parameters that are numbers. */
const NUMBER_NAME = /^(?:.*_)?(?:number|count)\d?$/;
const NUMBER = /^\d[\d,.]*$/;
/** Letters between which there is no blank. */
const CLOSE = '\u3000-\u303f\u3040-\u30ff\u4e00-\u9fff\uff00-\uffef';
const CLOSE_END = new RegExp(`[${CLOSE}] $`);
const CLOSE_START = new RegExp(`^ [${CLOSE}]`);
const STOPPED = new RegExp(`[${CLOSE}]$`);
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
      const changed = variant !== text;
      best ??= this._exact(variant) ?? this._match(variant, depth, changed);
      const other = text.endsWith('.')
        ? variant.slice(0, -1)
        : ended
          ? ''
          : `${variant}.`;
      if (!best && other) {
        const known = this._exact(other) ?? this._match(other, depth, changed);
        best = known && (ended ? withStop(known) : withoutStop(known));
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

  /** The translation by the template of which *text* has most. changed: its first letter. */
  private _match(
    text: string,
    depth: number,
    changed: boolean
  ): ITranslated | null {
    let best: ITranslated | null = null;
    for (const template of this._candidates(text)) {
      if (changed && !template.literals[0]) {
        continue; // It begins with a name.
      }
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
      const name = template.parameters[index];
      const text = known?.text ?? value;
      if (
        !template.messages.has(name) &&
        ENGLISH.test(text.replace(QUOTED, ''))
      ) {
        return null; // A sentence of two languages helps nobody.
      }
      score += known?.score ?? 0;
      filled.set(name, known?.text ?? isolated(value));
    }
    const [first, ...pieces] = template.translation.split(PARAMETER);
    let text = first;
    for (let index = 0; index < pieces.length; index += 3) {
      const value = filled.get(pieces[index] ?? pieces[index + 1]) ?? '';
      text = closed(closed(text, value), pieces[index + 2]);
    }
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

function withStop({ text, score }: ITranslated): ITranslated {
  return { text: text + (STOPPED.test(text) ? '。' : '.'), score: score + 1 };
}

function withoutStop({ text, score }: ITranslated): ITranslated {
  return { text: text.replace(/[.。]$/, ''), score: score - 1 };
}

/** Both together, without a blank between letters of Chinese or Japanese. */
function closed(before: string, after: string): string {
  if (CLOSE_END.test(before) && CLOSE_START.test(` ${after}`)) {
    return before.slice(0, -1) + after;
  }
  if (
    CLOSE_END.test(`${before} `) &&
    (CLOSE_START.test(after) || /[。？！]$/.test(before))
  ) {
    return before + after.replace(/^ /, '');
  }
  return before + after;
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
    let next = index === last ? end : text.indexOf(literals[index], at);
    while (index < last && next >= 0 && !isEnd(text, next, literals[index])) {
      next = text.indexOf(literals[index], next + 1);
    }
    if (
      next < at ||
      next + literals[index].length > (index === last ? text.length : end)
    ) {
      return null;
    }
    values.push(text.slice(at, next));
    at = next + literals[index].length;
  }
  if (!literals[last] && values[last - 1].endsWith('.')) {
    return null; // The end of another sentence.
  }
  // One that stands twice is the same in both places.
  const valueOf = (name: string) => values[parameters.indexOf(name)];
  const fits =
    values.every((value, index) => value === valueOf(parameters[index])) &&
    template.numbers.every(name => NUMBER.test(valueOf(name)));
  return fits ? values : null;
}

/** Whether a full stop at the end of *literal* is one in *text*, and not that of 3.2. */
function isEnd(text: string, at: number, literal: string): boolean {
  return (
    !/[.?!]$/.test(literal) || /^(\s|$)/.test(text.slice(at + literal.length))
  );
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
    numbers: parameters.filter(name => NUMBER_NAME.test(name)),
    messages: new Set(
      parameters.filter((_, index) => /[:“`]\s*$/.test(literals[index]))
    )
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

// What the server says in sentences, put into the user's language where an answer or an event comes in.
// The rest of the frontend so knows only one language. Names, paths, output and states stay.

import { Sentences } from '../ui/sentences';
import { Catalogue, catalogue } from '../ui/translation';

let sentences: Sentences | null = null;
let used: Catalogue | null = null;

/** A sentence of the server in the user's language; in English where it is not in the catalogue. */
export function inLanguage(sentence: string): string {
  if (catalogue !== used) {
    used = catalogue;
    sentences = catalogue && new Sentences(catalogue);
  }
  return sentences?.translate(sentence) ?? sentence;
}

/** The fields of the server's models that are sentences or labels for people, or lists of them. */
const SENTENCES = new Set([
  'advice',
  'cause',
  'changes',
  'hint',
  'last_error',
  'local_port_reason',
  'log',
  'meaning',
  'message',
  'no_restart',
  'note',
  'paused',
  'problem',
  'problems',
  'question',
  'storage_check',
  'text',
  'title',
  'uncovered',
  'warning',
  'warnings',
  'why',
  'zone_reason'
]);

/** What users or their programs wrote. */
const VERBATIM = new Set(['content', 'data', 'lines', 'request', 'variables']);

/** *value*, an answer or a part of one, with its sentences in the user's language; it is changed in place. */
export function withSentences<T>(value: T): T {
  if (catalogue) {
    visit(value);
  }
  return value;
}

function visit(value: unknown): void {
  if (Array.isArray(value)) {
    value.forEach(visit);
  } else if (value && typeof value === 'object') {
    const fields = value as Record<string, unknown>;
    for (const [name, content] of Object.entries(fields)) {
      if (SENTENCES.has(name)) {
        if (typeof content === 'string') {
          fields[name] = inLanguage(content);
          continue;
        }
        if (
          Array.isArray(content) &&
          content.every(one => typeof one === 'string')
        ) {
          fields[name] = content.map(inLanguage);
          continue;
        }
      }
      if (!VERBATIM.has(name)) {
        visit(content);
      }
    }
  }
}

// What the server says in sentences, put into the user's language where an answer or an event comes in.
// The rest of the frontend so knows only one language. Names, paths, output and states stay.

import { inLanguage, translatesSentences } from '../language/translation';

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
  if (translatesSentences()) {
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
      const texts = SENTENCES.has(name) ? textsIn(content) : null;
      if (texts) {
        const translated = texts.map(inLanguage);
        fields[name] = Array.isArray(content) ? translated : translated[0];
      } else if (!VERBATIM.has(name)) {
        visit(content);
      }
    }
  }
}

/** A text, or a list of texts; null for anything else. */
function textsIn(content: unknown): string[] | null {
  const all: unknown[] = Array.isArray(content) ? content : [content];
  return all.every(one => typeof one === 'string') ? all : null;
}

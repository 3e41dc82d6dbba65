// The language of VS Code: its texts are in l10n/, which VS Code reads for its display language.

import * as vscode from 'vscode';

import { loadCatalogue } from '../../labextension/src/language/translation';

/** Takes the language in which all is shown, and in which the server is asked to answer. */
export function loadLanguage(): void {
  const texts = vscode.l10n.bundle ?? {}; // none in English, and in a language without a translation
  const catalogue = Object.entries(texts).map(([text, one]) => [text, [one]]);
  loadCatalogue(Object.fromEntries(catalogue), vscode.env.language);
}

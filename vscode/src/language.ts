// The language of VS Code: its texts are in l10n/, which VS Code reads for its display language.

import * as vscode from 'vscode';

import {
  loadCatalogue,
  translationLoaded
} from '../../labextension/src/language/translation';

/** Resolves when all that is shown, also what the server says, is in VS Code's language. */
export async function loadLanguage(): Promise<void> {
  const texts = vscode.l10n.bundle; // none in English, and in a language without a translation
  if (texts) {
    const catalogue = Object.entries(texts).map(([text, one]) => [text, [one]]);
    loadCatalogue(Object.fromEntries(catalogue), vscode.env.language);
    await translationLoaded();
  }
}

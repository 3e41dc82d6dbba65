// The question before something is lost, or costs money, and what is only shown.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { IQuestion } from '../language/text';
import { trans } from '../language/translation';

/**
 * Asks a question that Enter alone answers with no.
 *
 * @param accept the label of the button for yes
 * @param harmless whether nothing is lost by it
 */
export async function confirm(
  title: string,
  text: string | JSX.Element,
  accept: string,
  { cancel = trans.__('Cancel'), harmless = false } = {}
): Promise<boolean> {
  const button = harmless ? Dialog.okButton : Dialog.warnButton;
  const result = await showDialog({
    title,
    body: inDialog(text),
    defaultButton: 0,
    buttons: [Dialog.cancelButton({ label: cancel }), button({ label: accept })]
  });
  return result.button.accept;
}

/** Whether the user agrees, or there is nothing to ask. */
export async function agreed(
  question: IQuestion | null | false,
  how?: { cancel?: string; harmless?: boolean }
): Promise<boolean> {
  return (
    !question ||
    (await confirm(question.title, question.text, question.accept, how))
  );
}

/** Asks which of several things to do; null: none. Enter alone chooses none. */
export async function choose(
  title: string,
  text: string | JSX.Element,
  choices: readonly string[]
): Promise<number | null> {
  const buttons = [
    Dialog.cancelButton({ label: trans.__('Cancel') }),
    ...choices.map(label => Dialog.okButton({ label }))
  ];
  const { button } = await showDialog({
    title,
    body: inDialog(text),
    defaultButton: 0,
    buttons
  });
  return button.accept ? choices.indexOf(button.label) : null;
}

/**
 * Shows something; other buttons than *Close* may stand before that, and Enter alone may press one of
 * them. Returns which was chosen.
 */
export async function show(
  title: string,
  text: string | JSX.Element,
  others: readonly Dialog.IButton[] = [],
  defaultButton = others.length
): Promise<Dialog.IButton> {
  const { button } = await showDialog({
    title,
    body: inDialog(text),
    defaultButton,
    buttons: [...others, Dialog.okButton({ label: trans.__('Close') })]
  });
  return button;
}

function inDialog(text: string | JSX.Element): JSX.Element {
  return (
    <div className="jp-tpu-Dialog">
      {typeof text === 'string' ? <p>{text}</p> : text}
    </div>
  );
}

// The panel in a document, and what a person does with it.

import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { expect, Mock, vi } from 'vitest';

import { Actions } from '../actions/actions';
import { CommandIDs, NO_ARGUMENTS } from '../actions/commandIDs';
import { ACTIONS } from '../actions/table';
import { addCommands } from '../actions/commands';
import { TPUModel } from '../model/model';
import { TPUPanel } from '../panel/panel';
import { PanelState } from '../panel/panelState';
import { TPUPage } from '../tpuPage/page';
import {
  Answer,
  noExamples,
  openModel,
  TestChangeFeed,
  TestServerKernels,
  TestServer
} from './server';

/** What is in the document. */
export const widgets: Widget[] = [];

/** After each test: files share this module, so that each of them asks for it. */
export function disposeWidgets(): void {
  widgets.splice(0).forEach(widget => widget.dispose());
  for (const node of document.querySelectorAll('.jp-tpu-Test, .lm-Menu')) {
    node.remove();
  }
}

export interface IOpened {
  actions: Actions;
  changes: TestChangeFeed;
  commands: CommandRegistry;
  model: TPUModel;
  node: HTMLElement;
  server: TestServer;
  /** Called with the arguments of what another part of the extension shows. */
  shown: Mock;
}

/** The actions of a model, without forms. */
export function actionsOf(model: TPUModel): Actions {
  return new Actions(
    model,
    new PanelState(),
    new CommandRegistry(),
    new TestServerKernels(),
    noExamples
  );
}

/** The panel in a document, and the pages that it opens, with a model that has asked its server. */
export async function openPanel(
  answers: { [call: string]: Answer | 'no network' } = {},
  /** The commands of other parts of the extension. */
  shownBy = new Set(
    Object.values(ACTIONS).flatMap(({ shownBy }) => shownBy ?? [])
  )
): Promise<IOpened> {
  const opened = await openModel(answers);
  const commands = new CommandRegistry();
  const actions = new Actions(
    opened.model,
    new PanelState(),
    commands,
    new TestServerKernels(),
    noExamples
  );
  await actions.loadForms();
  addCommands(commands, null, actions);
  const shown = vi.fn();
  for (const id of shownBy) {
    commands.addCommand(id, { describedBy: NO_ARGUMENTS, execute: shown });
  }
  const node = document.createElement('div');
  node.className = 'jp-tpu-Test';
  document.body.append(node);
  const show = (widget: Widget) => {
    widgets.push(widget);
    Widget.attach(widget, node);
  };
  commands.addCommand(CommandIDs.showTPU, {
    describedBy: NO_ARGUMENTS,
    execute: args => show(new TPUPage(args.tpu as string, actions))
  });
  show(new TPUPanel(actions));
  await vi.waitFor(() => expect(node.querySelector('h2')).toBeTruthy());
  return { ...opened, actions, commands, node, shown };
}

export function listOf(...tpus: object[]): { [call: string]: Answer } {
  return { 'GET tpus': [200, { tpus, problem: null }] };
}

export function button(node: HTMLElement, name: string): HTMLButtonElement {
  const match = [...node.querySelectorAll('button')].find(
    one => (one.getAttribute('aria-label') ?? one.textContent) === name
  );
  if (!match) {
    throw new Error(`no button ${name} in: ${node.textContent}`);
  }
  return match;
}

/** Presses a button of the dialog that opens, and returns what the dialog says. */
export async function answerDialog(name: string): Promise<string> {
  const dialog = await vi.waitFor(() => {
    const node = document.querySelector<HTMLElement>('.jp-Dialog');
    expect(node?.querySelector('.jp-Dialog-body')?.textContent).toBeTruthy();
    // The title is rendered by itself, on a busy machine a moment later.
    expect(node?.querySelector('.jp-Dialog-header')?.textContent).not.toBe('');
    return node!;
  });
  const text = dialog.textContent ?? '';
  button(dialog, name).click();
  await vi.waitFor(() => expect(dialog.isConnected).toBe(false));
  return text;
}

export async function shows(
  node: HTMLElement,
  ...texts: string[]
): Promise<void> {
  await vi.waitFor(() => {
    for (const text of texts) {
      expect(node.textContent).toContain(text);
    }
  });
}

/** The fields of the dialog that opens. */
export async function dialogInputs(count: number): Promise<HTMLInputElement[]> {
  return vi.waitFor(() => {
    const fields =
      document.querySelectorAll<HTMLInputElement>('.jp-Dialog input');
    expect(fields).toHaveLength(count);
    return [...fields];
  });
}

export function type(input: HTMLInputElement, text: string): void {
  const { set } = Object.getOwnPropertyDescriptor(
    HTMLInputElement.prototype,
    'value'
  )!;
  set!.call(input, text);
  input.dispatchEvent(new Event('input', { bubbles: true }));
}

/** Types into the only field of the dialog that opens. */
export async function typeInDialog(text: string): Promise<void> {
  const [input] = await dialogInputs(1);
  type(input, text);
}

// The panel in a document, and what a person does with it.

import { Notification } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { expect, Mock, vi } from 'vitest';

import { CommandIDs } from '../actions/commandIDs';
import { ACTIONS } from '../actions/table';
import { Actions } from '../app/actions';
import { addCommands } from '../app/commands';
import { Action } from '../model/availableActions';
import { TPUModel } from '../model/model';
import { TPUPanel } from '../panel/panel';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { TPUPage } from '../tpuPage/page';
import { NO_ARGUMENTS } from '../ui/described';
import { ViewState } from '../ui/viewState';
import { cleanups } from './cleanups';
import {
  Answer,
  listOf,
  noExamples,
  openModel,
  TestChangeFeed,
  TestServer,
  TestServerKernels
} from './server';

export * from './server';

/** What is in the document. */
export const widgets: Widget[] = [];

export function disposeWidgets(): void {
  widgets.splice(0).forEach(widget => widget.dispose());
  for (const node of document.querySelectorAll('.jp-tpu-Test, .lm-Menu')) {
    node.remove();
  }
}

cleanups.push(disposeWidgets, () => Notification.dismiss());

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
export function actionsOf(
  model: TPUModel,
  commands = new CommandRegistry()
): Actions {
  return new Actions(
    model,
    new ViewState(),
    commands,
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
  const actions = actionsOf(opened.model, commands);
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
  await expect.poll(() => node.querySelector('h2')).toBeTruthy();
  return { ...opened, actions, commands, node, shown };
}

type Answers = Parameters<typeof openPanel>[0];

/** The panel with one TPU, whose page is open. */
export async function openPage(
  tpu: ITPU,
  answers: Answers = {}
): Promise<IOpened> {
  const opened = await openPanel({ ...listOf(tpu), ...answers });
  button(opened.node, tpu.name).click();
  await shows(opened.node, 'Details');
  return opened;
}

/** The panel with one TPU, to which something is done by its command; *done*: all of it. */
export async function openAction(
  action: Action,
  tpu: ITPU,
  answers: Answers = {}
): Promise<IOpened & { done: Promise<void> }> {
  const opened = await openPanel({ ...listOf(tpu), ...answers });
  const { command } = ACTIONS[action];
  const done = opened.commands.execute(command, { tpu: keyOf(tpu) });
  return { ...opened, done };
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

/** Presses a button as soon as it is there and can be pressed. */
export async function press(node: HTMLElement, name: string): Promise<void> {
  const enabled = await vi.waitFor(() => {
    const match = button(node, name);
    expect(match.disabled).toBe(false);
    return match;
  });
  enabled.click();
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
  await expect.poll(() => dialog.isConnected).toBe(false);
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

export async function hides(
  node: HTMLElement,
  ...texts: string[]
): Promise<void> {
  await vi.waitFor(() => {
    for (const text of texts) {
      expect(node.textContent).not.toContain(text);
    }
  });
}

/** What the notifications say, the newest first. */
export function notified(): string[] {
  return Notification.manager.notifications.map(
    ({ message, type }) => `${type}: ${message}`
  );
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

/** The selects of the dialog that is open. */
export function dialogSelects(): HTMLSelectElement[] {
  return [...document.querySelectorAll<HTMLSelectElement>('.jp-Dialog select')];
}

/** The field with a label. */
export function field(node: HTMLElement, label: string): HTMLInputElement {
  const labelNode = [...node.querySelectorAll('label')].find(
    one => one.textContent === label
  );
  return document.getElementById(labelNode!.htmlFor) as HTMLInputElement;
}

/** Types as a person does: React ignores a value that is only set. */
export function type(input: HTMLElement, text: string): void {
  const prototype = Object.getPrototypeOf(input);
  const { set } = Object.getOwnPropertyDescriptor(prototype, 'value')!;
  set!.call(input, text);
  input.dispatchEvent(new Event('input', { bubbles: true }));
}

export function choose(select: HTMLSelectElement, value: string): void {
  select.value = value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
}

/** Types into the only field of the dialog that opens. */
export async function typeInDialog(text: string): Promise<void> {
  const [input] = await dialogInputs(1);
  type(input, text);
}

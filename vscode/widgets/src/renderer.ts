// Shows the widgets of a notebook's outputs. It runs in the page of the outputs, and is loaded with the first
// widget; the extension talks to the kernel.

import { IWidgetView } from '@jupyter-widgets/html-manager/lib/htmlmanager';

import { WidgetManager } from './manager';
import { FromPage, ITexts, ToPage } from './protocol';

/** What is used of VS Code's API of notebook renderers. */
interface IRendererContext {
  postMessage?(message: FromPage): void;
  onDidReceiveMessage?(listener: (message: ToPage) => void): void;
}

interface IOutputItem {
  id: string;
  json(): { model_id?: string };
}

export function activate(context: IRendererContext) {
  const page = new WidgetPage(context);
  return {
    renderOutputItem: (item: IOutputItem, element: HTMLElement) =>
      page.show(item, element),
    disposeOutputItem: (id?: string) => page.remove(id)
  };
}

class WidgetPage {
  constructor(private _context: IRendererContext) {
    addStyles();
    _context.onDidReceiveMessage?.(message => this._receive(message));
    _context.postMessage?.({ kind: 'ready' });
  }

  async show(item: IOutputItem, element: HTMLElement): Promise<void> {
    this.remove(item.id);
    const shown: IShown = { element };
    this._shown.set(item.id, shown);
    const id = item.json().model_id ?? '';
    element.classList.add('jupyter-tpu-widget');
    if (!this._manager.has_model(id) && !this._isComplete) {
      element.textContent = this._texts.loading;
      await new Promise<void>(resolve => this._waiting.set(resolve, id));
    }
    if (this._shown.get(item.id) !== shown) {
      return;
    }
    if (!this._manager.has_model(id)) {
      element.textContent = this._texts.missing;
      this._missing.set(item.id, { item, element });
      return;
    }
    element.textContent = '';
    try {
      const model = await this._manager.get_model(id);
      shown.view = await this._manager.create_view(model);
      if (this._shown.get(item.id) === shown) {
        await this._manager.display_view(shown.view, element);
      }
    } catch (error) {
      element.textContent = error instanceof Error ? error.message : `${error}`;
    }
  }

  /** undefined: all. */
  remove(id?: string): void {
    for (const one of id === undefined ? [...this._shown.keys()] : [id]) {
      this._shown.get(one)?.view?.remove();
      this._shown.delete(one);
      this._missing.delete(one);
    }
  }

  private _receive(message: ToPage): void {
    switch (message.kind) {
      case 'texts':
        this._texts = message.texts;
        break;
      case 'reset':
        this._isComplete = false;
        this._manager.reset();
        break;
      case 'messages':
        message.messages.forEach(one => this._manager.receive(one));
        this._look();
        break;
      case 'complete':
        this._isComplete = true;
        void this._complete(message.saved);
    }
  }

  private async _complete(saved?: object): Promise<void> {
    if (saved) {
      await this._manager.set_state(saved).catch(() => {});
    }
    this._look();
  }

  /** What was waited for may be there now. */
  private _look(): void {
    for (const [resolve, id] of this._waiting) {
      if (this._isComplete || this._manager.has_model(id)) {
        this._waiting.delete(resolve);
        resolve();
      }
    }
    for (const { element, item } of [...this._missing.values()]) {
      if (this._manager.has_model(item.json().model_id ?? '')) {
        void this.show(item, element);
      }
    }
  }

  /** There is no more to come, as far as is known. */
  private _isComplete = false;
  private _manager = new WidgetManager(
    message => this._context.postMessage?.({ kind: 'send', message }),
    module => this._texts.unsupported.replace('%1', module)
  );
  private _missing = new Map<
    string,
    { item: IOutputItem; element: HTMLElement }
  >();
  private _shown = new Map<string, IShown>();
  private _texts: ITexts = { loading: '', missing: '', unsupported: '%1' };
  /** Those who wait for a model, by its id. */
  private _waiting = new Map<() => void, string>();
}

interface IShown {
  element: HTMLElement;
  view?: IWidgetView;
}

function addStyles(): void {
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = new URL('./widgets.css', import.meta.url).href;
  document.head.append(link);
}

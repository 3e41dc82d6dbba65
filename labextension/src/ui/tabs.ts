// Commands that show something in a tab: one tab for each thing, which is opened again with the layout.

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd
} from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { TabPanel, Widget } from '@lumino/widgets';

import { describe } from './described';
import { tpuIcon } from './icons';

export interface ITabs<A extends ReadonlyJSONObject> {
  command: string;
  /** The type of the tabs, for layouts. */
  type: string;
  label: string;
  describedBy: ReturnType<typeof describe>;
  /** The name of the tabs among those of other extensions. */
  namespace: string;
  /** The arguments of the command as they are kept. */
  argsOf: (args: ReadonlyJSONObject) => A;
  /** The same for two tabs that show the same. */
  keyOf: (args: A) => string;
  create: (args: A) => Promise<MainAreaWidget>;
  /** Jupyter Notebook has tabs on its first page only: whether it is shown there. */
  onFirstPage?: boolean;
  /** What shows it where there are no tabs; without it, it is shown below the document. */
  elsewhere?: (args: A) => Promise<void>;
}

/** A tab with this content; *caption*: its tooltip. */
export function createTab<T extends Widget>(
  content: T,
  { id, ...title }: { id: string; label: string; caption: string }
): MainAreaWidget<T> {
  const tab = new MainAreaWidget({ content });
  tab.id = id;
  Object.assign(tab.title, title, { icon: tpuIcon, closable: true });
  return tab;
}

/** The tabs that a widget is one of; undefined in JupyterLab's main area. */
function tabPanelOf(widget: Widget): TabPanel | undefined {
  let around = widget.parent;
  while (around && !(around instanceof TabPanel)) {
    around = around.parent;
  }
  return around ?? undefined;
}

/** Adds the command. */
export function addTabs<A extends ReadonlyJSONObject>(
  { commands, shell }: JupyterFrontEnd,
  labShell: ILabShell | null,
  restorer: ILayoutRestorer | null,
  tabs: ITabs<A>
): void {
  const { argsOf, command, create, describedBy, elsewhere, keyOf, label } =
    tabs;
  const tracker = new WidgetTracker<MainAreaWidget>({
    namespace: tabs.namespace
  });
  const shown = new WeakMap<MainAreaWidget, A>();
  const firstPage = () =>
    labShell || !tabs.onFirstPage
      ? undefined
      : ([...shell.widgets('main')].find(one => one instanceof TabPanel) as
          TabPanel | undefined);
  const open = async (args: A) => {
    const tab = await create(args);
    shown.set(tab, args);
    void tracker.add(tab);
    const page = firstPage();
    if (page) {
      page.addWidget(tab);
    } else {
      shell.add(tab, labShell ? 'main' : 'down', { type: tabs.type });
    }
    return tab;
  };
  commands.addCommand(command, {
    label,
    describedBy,
    execute: async given => {
      const args = argsOf(given as ReadonlyJSONObject);
      if (elsewhere && !labShell) {
        await elsewhere(args);
        return;
      }
      const known = tracker.find(one => keyOf(shown.get(one)!) === keyOf(args));
      const tab = known ?? (await open(args));
      const around = tabPanelOf(tab);
      if (around) {
        around.currentWidget = tab; // Jupyter Notebook's shell does not do it
      }
      if (!around || around !== firstPage()) {
        shell.activateById(tab.id);
      }
    }
  });
  void restorer?.restore(tracker, {
    command,
    args: tab => shown.get(tab)!,
    name: tab => keyOf(shown.get(tab)!)
  });
}

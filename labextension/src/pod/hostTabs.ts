// What differs by host: a row of tabs. The first one has the output of all groups of hosts in short.
// https://www.w3.org/WAI/ARIA/apg/patterns/tabs/

import { trans } from '../ui/translation';

/** Lines of each group in the first tab. */
const SHORT = 3;
const PICTURE = /^data:image\/(png|jpeg);base64,[A-Za-z0-9+/=]*$/;

/** What a group of hosts with equal output has printed. */
interface IGroup {
  /** "host 3", or "host 3: ValueError: bad batch". */
  title: string;
  text: string;
  pictures: string[];
}

let count = 0;

/**
 * The tabs of a mime bundle. *described*: what its JSON says; the texts are in its HTML, so that
 * they are sent and stored once. Tracebacks have no tab for all hosts. All of it comes from hosts, and none of it is used as markup.
 */
export function hostTabs(
  bundle: Record<string, unknown>,
  described: unknown
): HTMLElement {
  const { heading, above } = described as {
    heading?: unknown;
    above?: unknown;
  };
  const groups = groupsOf(bundle['text/html']);
  const root = element('div', 'jp-tpu-Hosts');
  if (typeof heading === 'string') {
    root.append(element('div', 'jp-tpu-Hosts-heading', heading));
  }
  const tabs: [string, HTMLElement][] = groups.map(group => [
    group.title,
    whole(group)
  ]);
  if (typeof above === 'string' && above) {
    const text = trans.__('Its output is above.');
    tabs.unshift(
      [trans.__('All'), inShort(groups)],
      [above, element('p', '', text)]
    );
  }
  root.append(...tabbed(tabs, trans.__('Output by host')));
  return root;
}

/** The groups in the HTML that the conductor makes: a `details` element each. */
function groupsOf(html: unknown): IGroup[] {
  const text = Array.isArray(html) ? html.join('') : String(html ?? '');
  // Not part of the page: nothing in it is loaded or run.
  const parsed = new DOMParser().parseFromString(text, 'text/html');
  return [...parsed.querySelectorAll('details')].map(details => ({
    title: details.querySelector('summary')?.textContent ?? '',
    text: details.querySelector('pre')?.textContent ?? '',
    pictures: [...details.querySelectorAll('img')]
      .map(image => image.getAttribute('src') ?? '')
      .filter(source => PICTURE.test(source))
  }));
}

function inShort(groups: IGroup[]): HTMLElement {
  const list = element('dl', 'jp-tpu-Hosts-all');
  for (const { title, text, pictures } of groups) {
    const lines = text.split('\n');
    const more = lines.length - SHORT;
    const shown = element('dd', '');
    shown.append(
      element(
        'pre',
        '',
        lines.slice(0, more > 1 ? SHORT : undefined).join('\n')
      )
    );
    if (more > 1) {
      shown.append(element('span', '', trans.__('… %1 more lines', more)));
    }
    if (pictures.length) {
      shown.append(element('span', '', trans.__('[a plot]')));
    }
    list.append(element('dt', '', title), shown);
  }
  return list;
}

function whole({ title, text, pictures }: IGroup): HTMLElement {
  const node = element('div', '');
  node.append(element('pre', '', text));
  for (const source of pictures) {
    const image = document.createElement('img');
    image.src = source;
    image.alt = title;
    node.append(image);
  }
  return node;
}

/** A row of tabs, and a panel each. The arrow keys, Home and End go from tab to tab. */
function tabbed(
  contents: [string, HTMLElement][],
  label: string
): HTMLElement[] {
  const prefix = `jp-tpu-hosts-${(count += 1)}`;
  const row = element('div', 'jp-tpu-Hosts-tabs');
  row.setAttribute('role', 'tablist');
  row.setAttribute('aria-label', label);
  const tabs = contents.map(([title], index) => {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.textContent = title;
    tab.id = `${prefix}-tab-${index}`;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', `${prefix}-panel-${index}`);
    tab.onclick = () => select(index);
    return tab;
  });
  const panels = contents.map(([, content], index) => {
    const panel = element('div', 'jp-tpu-Hosts-panel');
    panel.id = `${prefix}-panel-${index}`;
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', `${prefix}-tab-${index}`);
    panel.tabIndex = 0;
    panel.append(content);
    return panel;
  });
  const select = (selected: number) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute('aria-selected', String(index === selected));
      tab.tabIndex = index === selected ? 0 : -1;
      panels[index].hidden = index !== selected;
    });
  };
  row.onkeydown = event => {
    const at = tabs.indexOf(event.target as HTMLButtonElement);
    const last = tabs.length - 1;
    const next = {
      ArrowLeft: at > 0 ? at - 1 : last,
      ArrowRight: at < last ? at + 1 : 0,
      Home: 0,
      End: last
    }[event.key];
    if (next !== undefined) {
      select(next);
      tabs[next].focus();
      event.preventDefault();
      event.stopPropagation(); // the notebook would go to another cell
    }
  };
  row.append(...tabs);
  select(0);
  return [row, ...panels];
}

function element(tag: string, className: string, text = ''): HTMLElement {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  node.textContent = text;
  return node;
}

// What differs by host: a row of tabs. The first one has the output of all groups of hosts in short.
// https://www.w3.org/WAI/ARIA/apg/patterns/tabs/

import { trans } from '../language/translation';
import { element, textButton } from '../ui/element';

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
  const tabs: [string, HTMLElement][] = groups.map(group => [
    group.title,
    whole(group)
  ]);
  if (typeof above === 'string' && above) {
    const text = trans.__('Its output is above.');
    tabs.unshift(
      [trans.__('All'), inShort(groups)],
      [above, element('p', {}, text)]
    );
  }
  const title = typeof heading === 'string' ? [heading] : [];
  return element(
    'div',
    { class: 'jp-tpu-Hosts' },
    ...title.map(text =>
      element('div', { class: 'jp-tpu-Hosts-heading' }, text)
    ),
    ...tabbed(tabs, trans.__('Output by host'))
  );
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
  const entries = groups.flatMap(({ title, text, pictures }) => {
    const lines = text.split('\n');
    const more = lines.length - SHORT;
    const shown = more > 1 ? lines.slice(0, SHORT).join('\n') : text;
    const notes = [
      more > 1 && trans.__('… %1 more lines', more),
      pictures.length > 0 && trans.__('[a plot]')
    ].map(note => (note ? element('span', {}, note) : ''));
    const content = element('dd', {}, element('pre', {}, shown), ...notes);
    return [element('dt', {}, title), content];
  });
  return element('dl', { class: 'jp-tpu-Hosts-all' }, ...entries);
}

function whole({ title, text, pictures }: IGroup): HTMLElement {
  const images = pictures.map(src => element('img', { src, alt: title }));
  return element('div', {}, element('pre', {}, text), ...images);
}

/** A row of tabs, and a panel each. The arrow keys, Home and End go from tab to tab. */
function tabbed(
  contents: [string, HTMLElement][],
  label: string
): HTMLElement[] {
  const prefix = `jp-tpu-hosts-${(count += 1)}`;
  const tabs = contents.map(([title], index) => {
    const tab = textButton(title, '', () => select(index));
    tab.id = `${prefix}-tab-${index}`;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', `${prefix}-panel-${index}`);
    return tab;
  });
  const panels = contents.map(([, content], index) =>
    element(
      'div',
      {
        class: 'jp-tpu-Hosts-panel',
        id: `${prefix}-panel-${index}`,
        role: 'tabpanel',
        'aria-labelledby': `${prefix}-tab-${index}`,
        tabindex: '0'
      },
      content
    )
  );
  const select = (selected: number) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute('aria-selected', String(index === selected));
      tab.tabIndex = index === selected ? 0 : -1;
      panels[index].hidden = index !== selected;
    });
  };
  const row = element(
    'div',
    { class: 'jp-tpu-Hosts-tabs', role: 'tablist', 'aria-label': label },
    ...tabs
  );
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
  select(0);
  return [row, ...panels];
}

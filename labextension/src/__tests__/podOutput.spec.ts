import { afterEach, expect, it } from 'vitest';

import { hostStates, kernelPlace } from '../kernels/kernelLabels';
import { hostTabs } from '../pod/hostTabs';

/** As jupyter_tpu/on_host/agent/pod/folding.py makes it. */
const HTML =
  '<div><div>Different on:</div>' +
  '<details open><summary>host 1</summary><pre>one &lt;b&gt;</pre></details>' +
  '<details open><summary>hosts 2, 3</summary><pre>1\n2\n3\n4\n5\n6</pre>' +
  '<img src="data:image/png;base64,aGk="><img src="https://host/seen.png">' +
  '</details></div>';

afterEach(() => document.body.replaceChildren());

function shown(): { tabs: HTMLElement[]; panel: () => HTMLElement } {
  const node = hostTabs(
    { 'text/html': [HTML] },
    { heading: 'Different on:', above: 'host 0', hosts: [[1], [2, 3]] }
  );
  document.body.append(node);
  return {
    tabs: [...node.querySelectorAll<HTMLElement>('[role=tab]')],
    panel: () =>
      node.querySelector<HTMLElement>('[role=tabpanel]:not([hidden])')!
  };
}

it('output that differs has a tab for each group of hosts, and one for all', () => {
  const { tabs, panel } = shown();
  expect(tabs.map(tab => tab.textContent)).toEqual([
    'All',
    'host 0',
    'host 1',
    'hosts 2, 3'
  ]);
  expect(panel().textContent).toContain('one <b>');
  expect(panel().textContent).toContain('… 3 more lines');
  tabs[3].click();
  expect(panel().querySelector('pre')!.textContent).toBe('1\n2\n3\n4\n5\n6');
  expect(panel().getAttribute('aria-labelledby')).toBe(tabs[3].id);
  expect(tabs.map(tab => tab.getAttribute('aria-selected'))).toEqual([
    'false',
    'false',
    'false',
    'true'
  ]);
});

it('what a host printed is text, and only pictures of its own are shown', () => {
  const { tabs, panel } = shown();
  tabs[2].click();
  expect(panel().querySelector('b')).toBeNull();
  tabs[3].click();
  const images = [...panel().querySelectorAll('img')];
  expect(images.map(image => image.src)).toEqual([
    'data:image/png;base64,aGk='
  ]);
});

it('the arrow keys go from tab to tab, and only the selected one is a tab stop', () => {
  const { tabs } = shown();
  tabs[0].focus();
  const press = (key: string) =>
    document.activeElement!.dispatchEvent(
      new KeyboardEvent('keydown', { key, bubbles: true })
    );
  press('ArrowRight');
  expect(document.activeElement).toBe(tabs[1]);
  press('End');
  expect(document.activeElement).toBe(tabs[3]);
  press('ArrowRight');
  expect(document.activeElement).toBe(tabs[0]);
  press('ArrowLeft');
  expect(document.activeElement).toBe(tabs[3]);
  expect(tabs.map(tab => tab.tabIndex)).toEqual([-1, -1, -1, 0]);
});

it('hosts of a pod kernel that do different things are told apart', () => {
  const kernel = (hosts: string[], state = 'busy') =>
    ({ hosts, host: 0, state }) as never;
  expect(hostStates(kernel(['busy', 'waiting', 'waiting', 'dead']))).toBe(
    'host 0 busy, hosts 1–2 waiting for other hosts, host 3 dead'
  );
  expect(hostStates(kernel(['busy', 'busy']))).toBe('');
  expect(hostStates(kernel([], 'dead'))).toBe('');
  expect(kernelPlace(kernel(['busy', 'busy']))).toBe('on all 2 hosts');
  expect(kernelPlace(kernel([]))).toBe('on host 0');
});

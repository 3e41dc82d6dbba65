// The form for a new TPU, in the panel.

import { describe, expect, it, vi } from 'vitest';

import { IProblem } from '../rest/api';
import { button, openPanel, shows, type, widgets } from './opened';
import {
  anOperation,
  Answer,
  aProblem,
  aQuote,
  aTPU,
  catalogWith,
  listOf
} from './server';

describe('the form', () => {
  const create = (reason: IProblem['reason'], field = ''): Answer => [
    409,
    aProblem('Not now.', reason, '', { field })
  ];

  it('keeps its input when it is refused, and its error has the focus', async () => {
    const { actions, node } = await openPanel({
      'POST quotes': [200, aQuote()],
      'POST tpus': create('QUOTA')
    });
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.forms.create.set('name', 'mine');
    button(node, 'Create').click();
    await shows(node, 'Not now.');
    const alert = node.querySelector('form [role=alert]')!;
    expect(alert.parentElement).toBe(document.activeElement);
    expect(node.querySelector('form input')).toHaveProperty('value', 'mine');
  });

  it('is left with Escape, and has what was typed when it is opened again', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.forms.create.set('name', 'mine');
    const press = { key: 'Escape', bubbles: true };
    node
      .querySelector('form input')!
      .dispatchEvent(new KeyboardEvent('keydown', press));
    await shows(node, 'No TPUs yet');
    actions.openCreateForm();
    await expect
      .poll(() => node.querySelector('form input'))
      .toHaveProperty('value', 'mine');
  });

  it('moves the focus to the row of what it created', async () => {
    const operation = anOperation({ kind: 'create', tpu: 'mine' });
    const { actions, changes, node } = await openPanel({
      ...listOf(aTPU({ name: 'other', id: 'other' })),
      'POST quotes': [200, aQuote()],
      'POST tpus': [202, operation]
    });
    actions.openCreateForm();
    await shows(node, 'Advanced');
    actions.forms.create.set('name', 'mine');
    button(node, 'Create').click();
    await shows(node, 'Creating mine');
    changes.tpu(aTPU({ name: 'mine', state: 'CREATING' }));
    const focused = () => document.activeElement?.textContent;
    await expect.poll(focused).toBe('mine');
    // It goes to a neighbor when that is gone.
    changes.gone('tpu', 'us-central1-a/mine');
    await expect.poll(focused).toBe('other');
  });

  it('hunts for what Google had no capacity for', async () => {
    const { actions, changes, node } = await openPanel();
    const [, problem] = create('NO_CAPACITY') as [number, IProblem];
    const failed = { kind: 'create', tpu: 'mine', state: 'failed' } as const;
    changes.operation(anOperation({ ...failed, problem }));
    await shows(node, 'mine could not be created');
    button(node, 'Hunt in More Zones…').click();
    await shows(node, 'Start Hunt');
    expect(actions.forms.create.fields).toMatchObject({
      name: 'mine',
      hunt: true
    });
  });

  it('says what each type costs', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Advanced');
    node.querySelector<HTMLElement>('[role=combobox]')!.click();
    await shows(node, 'v5litepod-8 $9.60/h 8 chips · 1 host · 128 GB HBM');
    await shows(node, 'v4-32 $51.52/h 16 chips');
  });
});

describe('a TPU that costs money', () => {
  it('is created after its price was shown twice: in the form, and in a question', async () => {
    const { actions, node, server } = await openPanel({
      ...catalogWith({ emulated: false }),
      'POST quotes': [200, aQuote()],
      'POST tpus': [202, anOperation({ kind: 'create' })]
    });
    actions.openCreateForm();
    await shows(
      node,
      'About $9.60 an hour (us-central1, on demand, list price of 2024)',
      'You pay while it is ready, used or not.'
    );
    button(node, 'Create').click();
    await shows(
      document.body,
      'Create my-tpu?',
      'About $9.60 an hour (us-central1, on demand, list price of 2024-12-23)',
      'Stop or delete it to stop paying.'
    );
    const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
    expect(server.count('POST tpus')).toBe(0);
    button(dialog, 'Create').click();
    await server.counts('POST tpus');
  });

  it('is looked at again while somebody sees the panel', async () => {
    vi.useFakeTimers();
    const { server } = await openPanel();
    const [panel] = widgets;
    panel.hide();
    panel.show();
    const before = server.count('GET tpus');
    await vi.advanceTimersByTimeAsync(250_000);
    expect(server.count('GET tpus')).toBe(before + 2);
    panel.hide();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.count('GET tpus')).toBe(before + 2);
  });

  it('is said to cost nothing where it is emulated', async () => {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    await shows(node, 'Costs nothing. A real one: about $9.60 an');
    actions.forms.create.set('type', 'v4-32');
    actions.forms.create.set('tier', 'spot');
    await shows(node, 'Costs nothing. The price of a real one is unknown.');
    expect(node.textContent).not.toContain('You pay');
  });
});

describe('the types of the form', () => {
  async function openTypes(): Promise<{
    input: HTMLInputElement;
    options: () => string[];
    press: (key: string) => void;
  }> {
    const { actions, node } = await openPanel();
    actions.openCreateForm();
    const input = await vi.waitFor(() => {
      const field = node.querySelector<HTMLInputElement>('[role=combobox]');
      expect(field).toBeTruthy();
      return field!;
    });
    return {
      input,
      options: () =>
        [...node.querySelectorAll('[role=group]')].map(
          group =>
            `${group.getAttribute('aria-label')}: ${[
              ...group.querySelectorAll('[role=option]')
            ].map(option => option.firstChild?.textContent)}`
        ),
      press: key =>
        input.dispatchEvent(
          new KeyboardEvent('keydown', { key, bubbles: true })
        )
    };
  }

  it('are listed by generation, and chosen with the keyboard', async () => {
    const { input, options, press } = await openTypes();
    expect(input.value).toBe('v5litepod-8');
    input.click();
    await expect
      .poll(options)
      .toEqual(['TPU v4: v4-32', 'TPU v5e: v5litepod-8']);
    press('ArrowUp');
    await expect
      .poll(() => input.getAttribute('aria-activedescendant'))
      .toMatch(/v4-32$/);
    press('Enter');
    await expect.poll(() => input.value).toBe('v4-32');
    expect(options()).toEqual([]);
  });

  it('are found by words, and Escape keeps the chosen one', async () => {
    const { input, options, press } = await openTypes();
    type(input, '4 HOSTS');
    await expect.poll(options).toEqual(['TPU v4: v4-32']);
    type(input, '8 hosts'); // 8 chips on 1 host
    await expect.poll(options).toEqual([]);
    type(input, 'v5e 12');
    await expect.poll(options).toEqual([]);
    type(input, 'v5lite 128');
    await expect.poll(options).toEqual(['TPU v5e: v5litepod-8']);
    type(input, 'nothing like this');
    await expect.poll(options).toEqual([]);
    press('Escape');
    await expect.poll(() => input.value).toBe('v5litepod-8');
    type(input, 'v4');
    await expect.poll(options).toEqual(['TPU v4: v4-32']);
    press('Enter');
    await expect.poll(() => input.value).toBe('v4-32');
  });
});

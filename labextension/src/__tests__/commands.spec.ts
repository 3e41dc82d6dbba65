// The commands, their menus and the palette.

import { IPaletteItem } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { describe, expect, it, vi } from 'vitest';

import { addCommands } from '../app/commands';
import {
  answerDialog,
  button,
  choose,
  dialogSelects,
  openPanel,
  shows
} from './opened';
import { anOperation, aTPU, connectedTPU, listOf, someHosts } from './server';

describe('the commands', () => {
  it('do to a TPU what its state allows', async () => {
    const { commands, server } = await openPanel({
      ...listOf(aTPU(), aTPU({ name: 'off', state: 'STOPPED' })),
      'POST tpus/us-central1-a~off/start': [
        202,
        anOperation({ kind: 'start', tpu: 'off' })
      ]
    });
    const ready = { tpu: 'us-central1-a/my-tpu' };
    expect(commands.isEnabled('tpu:start', ready)).toBe(false);
    expect(commands.isEnabled('tpu:connect', ready)).toBe(true);
    // Without arguments: the only one that can be started.
    await commands.execute('tpu:start');
    expect(server.count('POST tpus/us-central1-a~off/start')).toBe(1);
  });

  it('are in the palette once each, and ask for the TPU', async () => {
    const tpus = [aTPU(), aTPU({ name: 'other' })];
    const { actions, server } = await openPanel({
      ...listOf(...tpus),
      'POST tpus/us-central1-a~other/connect': [
        202,
        anOperation({ tpu: 'other' })
      ]
    });
    const items: IPaletteItem[] = [];
    const palette = {
      addItem: (item: IPaletteItem) => items.push(item)
    };
    const commands = new CommandRegistry();
    addCommands(commands, palette as never, actions);
    const labels = items.map(({ args, command }) =>
      commands.label(command, args)
    );
    expect(labels).toContain('TPU: Connect');
    expect(new Set(labels).size).toBe(labels.length);
    expect(labels.length).toBeLessThan(45);
    // Only what some TPU allows is offered.
    const args = { isPalette: true };
    expect(commands.isEnabled('tpu:start', args)).toBe(false);
    const done = commands.execute('tpu:connect', args);
    await vi.waitFor(() => choose(dialogSelects()[0], 'us-central1-a/other'));
    await answerDialog('Ok');
    await done;
    expect(server.count('POST tpus/us-central1-a~other/connect')).toBe(1);
  });

  it('are in groups, and those for files, ports and chips in submenus', async () => {
    const { node } = await openPanel(listOf(connectedTPU()));
    const entries = (menu: Element) =>
      [...menu.querySelectorAll<HTMLElement>('.lm-Menu-item')]
        .filter(item => !item.classList.contains('lm-mod-collapsed'))
        .map(item => (item.role === 'menuitem' ? item.textContent : '—'));
    button(node, 'Actions for my-tpu').click();
    await shows(document.body, 'New Notebook');
    const [menu] = document.getElementsByClassName('lm-Menu');
    expect(entries(menu)).toEqual([
      'New Notebook',
      'New Console',
      'Open Example…',
      'Open Terminal',
      'Run Command…',
      'New Job…',
      '—',
      'Files',
      'Web Apps and Ports',
      'Chips and Profiles',
      'Check This TPU…',
      '—',
      'New Environment…',
      'Tokens…',
      'Sessions…',
      'Disconnect',
      '—',
      'Stop Automatically…',
      'Stop…',
      '—',
      'Replace This TPU…',
      'Delete…'
    ]);
    for (const key of [
      { key: 'F', keyCode: 70 },
      { key: 'ArrowRight', keyCode: 39 }
    ]) {
      menu.dispatchEvent(new KeyboardEvent('keydown', key));
    }
    const [, files] = document.getElementsByClassName('lm-Menu');
    expect(entries(files)).toEqual([
      'Browse Files',
      'Upload Files…',
      'Download File…',
      'Copy Files and Folders…',
      'Sync a Folder…',
      'Share a Folder…'
    ]);
  });

  it('say why a pod or a Spot TPU cannot be stopped', async () => {
    const pod = aTPU({ name: 'pod', hosts: someHosts(2) });
    const spot = aTPU({ name: 'spot', tier: 'spot' });
    const { commands, node } = await openPanel(listOf(pod, spot));
    for (const [name, label] of [
      ['pod', 'Stop (only possible with 1 host)'],
      ['spot', 'Stop (not possible with Spot)']
    ]) {
      button(node, `Actions for ${name}`).click();
      await shows(document.body, label);
      const [menu] = document.getElementsByClassName('lm-Menu');
      const item = [...menu.querySelectorAll('.lm-Menu-item')].find(
        one => one.textContent === label
      );
      expect(item?.classList).toContain('lm-mod-disabled');
      const args = { tpu: `us-central1-a/${name}` };
      expect(commands.isEnabled('tpu:stop', args)).toBe(false);
    }
  });

  it('that are not about one TPU are in the menu of the panel', async () => {
    const { node } = await openPanel();
    button(node, 'More').click();
    await shows(document.body, 'TPU Usage…', 'Queued Resources…', 'Grants…');
    await shows(document.body, 'Attach a Machine…', 'Tokens…', 'Check Setup…');
  });

  it('fill the form in', async () => {
    const { commands, node } = await openPanel();
    await commands.execute('tpu:create', { name: 'given', type: 'v4-32' });
    await vi.waitFor(() => {
      expect(node.querySelector('form input')).toHaveProperty('value', 'given');
    });
  });

  it('all describe their arguments', async () => {
    const { commands } = await openPanel();
    for (const id of commands.listCommands()) {
      const { args } = await commands.describedBy(id);
      expect(args, id).toMatchObject({ type: 'object' });
    }
  });
});

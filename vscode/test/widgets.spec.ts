// What a kernel's widgets are, and what its output widgets show.

import { describe, expect, it, vi } from 'vitest';

import { OutputWidgets } from '../src/notebook/outputWidgets';
import { WidgetModels } from '../src/notebook/widgetModels';
import { IMessage } from '../src/notebook/wire';
import { ICommMessage } from '../widgets/src/protocol';

function message(
  type: ICommMessage['type'],
  content: object,
  buffers: string[] = []
): ICommMessage {
  return { type, id: '1', content, metadata: {}, buffers };
}

function open(comm_id: string, state: object, data = {}, buffers?: string[]) {
  const target_name = 'jupyter.widget';
  const content = { comm_id, target_name, data: { state, ...data } };
  return message('comm_open', content, buffers);
}

function update(comm_id: string, state: object, data = {}, buffers?: string[]) {
  const content = { comm_id, data: { method: 'update', state, ...data } };
  return message('comm_msg', content, buffers);
}

function printed(request: string, text: string): IMessage {
  return {
    channel: 'iopub',
    header: { msg_type: 'stream' },
    parent_header: { msg_id: request },
    content: { name: 'stdout', text }
  } as IMessage;
}

describe('The widgets of a kernel', () => {
  it('have their latest states, with binary parts, for a page that comes later', () => {
    const models = new WidgetModels();
    const paths = { buffer_paths: [['image'], ['list', 1]] };
    models.apply(open('a', { value: 1, list: [0] }, paths, ['AA', 'BB']));
    models.apply(open('b', {}));
    models.apply(
      update('a', { value: 2 }, { buffer_paths: [['image']] }, ['CC'])
    );
    models.apply(update('a', { list: [] }));
    models.apply(message('comm_close', { comm_id: 'b' }));
    const [one, ...others] = models.messages();
    expect(others).toEqual([]);
    expect(one.content.data).toEqual({
      state: { value: 2, list: [] },
      buffer_paths: [['image']]
    });
    expect(one.buffers).toEqual(['CC']);
  });

  it('keep their own messages until there is a page', () => {
    const models = new WidgetModels();
    models.apply(open('a', {}));
    const custom = message('comm_msg', {
      comm_id: 'a',
      data: { method: 'custom', content: 1 }
    });
    models.apply(custom, false);
    expect(models.messages().slice(1)).toEqual([custom]);
    expect(models.messages().slice(1)).toEqual([]);
  });

  it('come from what the kernel says of all', () => {
    const models = new WidgetModels();
    models.apply(open('a', { value: 1 }));
    const states = {
      a: { state: { value: 2 } },
      b: { state: { image: null } }
    };
    const data = { states, buffer_paths: [['b', 'state', 'image']] };
    const all = models.messagesOf(
      message('comm_msg', { comm_id: 'control', data }, ['AA'])
    );
    expect(all.map(({ type }) => type)).toEqual(['comm_msg', 'comm_open']);
    all.forEach(one => models.apply(one));
    const [a, b] = models.messages();
    expect(a.content.data.state).toEqual({ value: 2 });
    expect(b.content.data.buffer_paths).toEqual([['image']]);
    expect(b.buffers).toEqual(['AA']);
  });
});

describe('An output widget', () => {
  it('has what a kernel prints into it, and the cell the rest', () => {
    vi.useFakeTimers();
    const shown: object[][] = [];
    const widgets = new OutputWidgets((_, outputs) => shown.push(outputs));
    const before = { output_type: 'stream', name: 'stdout', text: 'a\n' };
    widgets.note(open('out', { outputs: [before], msg_id: '' }));
    expect(widgets.take(printed('cell', 'of the cell'))).toBe(false);
    widgets.note(update('out', { msg_id: 'cell' }));
    expect(widgets.take(printed('cell', 'b\n'))).toBe(true);
    expect(widgets.take(printed('another', 'of another cell'))).toBe(false);
    widgets.note(update('out', { msg_id: '' }));
    expect(widgets.take(printed('cell', 'of the cell'))).toBe(false);
    vi.runAllTimers();
    expect(shown).toEqual([[{ ...before, text: 'a\nb\n' }]]);
    vi.useRealTimers();
  });
});

import { expect, it } from 'vitest';

import { CellOutputs } from '../src/notebook/outputs';
import { createMessage, decode, encode } from '../src/notebook/wire';

const message = (type: string, content: object) =>
  createMessage(type, 'session', content, { channel: 'iopub' });

/** What a notebook's file would have after these messages. */
function after(...messages: [string, object][]): unknown[] {
  const outputs = new CellOutputs();
  messages.forEach(one => outputs.apply(message(...one)));
  return outputs.entries.map(({ output, stream }) =>
    output.output_type === 'stream'
      ? [output.name, stream.text]
      : 'data' in output
        ? output.data
        : output.ename
  );
}

const print = (text: string, name = 'stdout'): [string, object] => [
  'stream',
  { name, text }
];
const display = (text: string, display_id = ''): [string, object] => [
  'display_data',
  { data: { text }, metadata: {}, transient: { display_id } }
];

it('joins what one stream prints, and keeps the order of outputs', () => {
  expect(
    after(
      print('a'),
      print('b\n'),
      print('c', 'stderr'),
      display('d'),
      print('e')
    )
  ).toEqual([
    ['stdout', 'ab\n'],
    ['stderr', 'c'],
    { text: 'd' },
    ['stdout', 'e']
  ]);
});

it('overwrites as a terminal does', () => {
  const text = (...parts: string[]) => after(...parts.map(one => print(one)));
  expect(text('10%\r', '20%\r', '30% done\n')).toEqual([
    ['stdout', '30% done\n']
  ]);
  expect(text('abc\rX\n', 'ab\bc')).toEqual([['stdout', 'Xbc\nac']]);
  expect(text('one\r\ntwo', '\b\b\b\b\bT')).toEqual([['stdout', 'one\nTwo']]);
});

it('clears at once, or with the next output', () => {
  const clear = (wait: boolean): [string, object] => ['clear_output', { wait }];
  expect(after(print('a'), clear(false))).toEqual([]);
  expect(after(print('a'), clear(true))).toEqual([['stdout', 'a']]);
  expect(after(print('a'), clear(true), print('b'))).toEqual([['stdout', 'b']]);
});

it('says what has to be shown anew, and no more', () => {
  const outputs = new CellOutputs();
  /** What was appended to each, or all of it. */
  const shown = () => {
    const { entries, reset } = outputs.takeChanges();
    const all = entries.map(one => {
      const { change } = one;
      one.change = 'none';
      return [change, one.stream.take()];
    });
    return { reset, all };
  };
  const apply = (...messages: [string, object][]) =>
    messages.forEach(one => outputs.apply(message(...one)));
  apply(print('a\n'), display('x', 'id'));
  expect(shown().all).toEqual([
    ['new', 'a\n'],
    ['new', '']
  ]);
  expect(outputs.hasChanges).toBe(false);
  apply(print('b'));
  apply(print('c'));
  expect(shown().all).toEqual([['new', 'bc']]);
  apply(print('d'));
  expect(shown().all).toEqual([['changed', 'd']]);
  apply(print('\r10%'));
  expect(shown().all).toEqual([['changed', null]]);
  expect(outputs.update('id', { text: 'y' }, {})).toBe(true);
  expect(outputs.update('other', {}, {})).toBe(false);
  expect(shown().all).toEqual([['changed', '']]);
  apply(['clear_output', { wait: true }], print('e'));
  expect(shown()).toEqual({ reset: true, all: [['new', 'e']] });
});

it('reads what it writes, with every character', () => {
  const sent = message('stream', { name: 'stdout', text: 'é 🚀\n' });
  sent.metadata = { jupyter_tpu: { number: 3, replayed: false } };
  sent.buffers = [Uint8Array.of(1, 2), Uint8Array.of()];
  expect(decode(encode(sent))).toEqual(sent);
});

import { KernelMessage, ServerConnection } from '@jupyterlab/services';
import { expect, it } from 'vitest';

import { contentOf, typeOf, widgetUpdate } from '../kernels/frames';
import {
  noteStates,
  RedirectedOutput,
  WidgetOutputs
} from '../kernels/outputWidgets';

const V1 = 'v1.kernel.websocket.jupyter.org';
const { serializer } = ServerConnection.makeSettings();

function frame(msgType: string, content: object): ArrayBuffer {
  const message = KernelMessage.createMessage({
    msgType,
    channel: 'iopub',
    session: 'kernel',
    content
  } as never);
  return serializer.serialize(message, V1) as ArrayBuffer;
}

const opened = (comm_id: string) =>
  frame('comm_open', {
    comm_id,
    target_name: 'jupyter.widget',
    data: { state: { _model_name: 'OutputModel', outputs: [] } }
  });
const redirect = (comm_id: string, msg_id: string) =>
  frame('comm_msg', { comm_id, data: { method: 'update', state: { msg_id } } });
const text = (text: string) => ({ name: 'stdout', text });
const line = (said: string) => frame('stream', text(said));
const stream = (said: string) => ({ output_type: 'stream', ...text(said) });
const shown = (comm: string, ...outputs: object[]) => ({
  comm,
  outputs,
  tell: false
});

it('takes what is printed inside of an output widget, and shows it there', () => {
  const redirected = new RedirectedOutput('r', new Map());
  expect(redirected.take(opened('outer'))).toBe(false);
  expect(redirected.take(line('before\n'))).toBe(false);
  // The widget must not hook this page's cell.
  expect(redirected.take(redirect('outer', 'r'))).toBe(true);
  expect(redirected.take(line('1\n'))).toBe(true);
  expect(redirected.take(redirect('inner', 'r'))).toBe(true);
  expect(redirected.take(line('inside\n'))).toBe(true);
  expect(redirected.take(redirect('inner', ''))).toBe(false);
  expect(redirected.take(line('2\n'))).toBe(true);
  expect(redirected.takeChanged()).toEqual([
    shown('outer', stream('1\n2\n')),
    shown('inner', stream('inside\n'))
  ]);
  expect(redirected.takeChanged()).toEqual([]);
  expect(redirected.take(frame('clear_output', { wait: true }))).toBe(true);
  expect(redirected.takeChanged()).toEqual([]);
  expect(redirected.take(line('3\n'))).toBe(true);
  expect(redirected.takeChanged()).toEqual([shown('outer', stream('3\n'))]);
  expect(redirected.take(redirect('outer', ''))).toBe(false);
  expect(redirected.take(line('after\n'))).toBe(false);
});

it('keeps what a widget of an earlier cell showed before', () => {
  const known: WidgetOutputs = new Map();
  const redirected = new RedirectedOutput('r', known);
  redirected.take(redirect('out', 'r'));
  redirected.take(line('1\n2\n3\n'));
  expect(redirected.takeChanged()).toEqual([shown('out', stream('1\n2\n3\n'))]);
  const old = { output_type: 'display_data', data: {} };
  const states = { out: { state: { outputs: [old, stream('1\n2\n')] } } };
  const data = { method: 'update_states', states };
  const said = frame('comm_msg', { comm_id: 'control', data });
  expect(noteStates(said, known)).toBe(true);
  redirected.showAgain(null);
  const all = [old, stream('1\n2\n3\n')];
  expect(redirected.takeChanged()).toEqual([shown('out', ...all)]);
  const update = widgetUpdate(said, 'out', { outputs: all });
  expect(typeOf(update)).toBe('comm_msg');
  expect(contentOf(update)).toMatchObject({
    comm_id: 'out',
    data: { method: 'update', state: { outputs: all } }
  });
  expect(serializer.deserialize(update, V1).channel).toBe('iopub');
});

it('tells the kernel what the page that ran the cell did not tell it', () => {
  const redirected = new RedirectedOutput('r', new Map());
  redirected.take(opened('out'));
  redirected.take(redirect('out', 'r'));
  redirected.take(line('1\n2\n'));
  redirected.takeChanged();
  redirected.ended = true;
  const told = (...outputs: object[]) => {
    const data = { method: 'echo_update', state: { outputs } };
    return redirected.showAgain(frame('comm_msg', { comm_id: 'out', data }));
  };
  expect(told(stream('1\n2\n'))).toBe(false);
  expect(told()).toBe(false); // it was cleared
  expect(told(stream('another\n'))).toBe(false);
  expect(told(stream('1\n'))).toBe(true);
  expect(redirected.takeChanged()).toEqual([
    { ...shown('out', stream('1\n2\n')), tell: true }
  ]);
});

it.each([
  ['of one piece', ['o0\n'], 'o0\no30\n'],
  ['in pieces', ['o0\n', 'o30\n'], 'o0\no30\no60\n'],
  ['of a line that was overwritten', ['o0\n10 %'], 'o0\n5 %\r10 %\r20 %\n'],
  ['before a line was overwritten', ['o0\n5 %'], 'o0\n5 %\r10 %\n']
])(
  'shows a first line once where a widget has a beginning %s',
  (_, told, own) => {
    const known: WidgetOutputs = new Map([['out', told.map(stream)]]);
    const redirected = new RedirectedOutput('r', known);
    redirected.take(redirect('out', 'r'));
    redirected.take(line(own));
    expect(redirected.takeChanged()).toEqual([shown('out', stream(own))]);
  }
);

import { Signal } from '@lumino/signaling';
import { expect, it } from 'vitest';

import { IContext, queueEarlyCells } from '../kernels/earlyCells';
import { OUT_OF_STEP, removeOnStart } from '../pod/restartOffers';

/** As JupyterLab's: it does nothing without a kernel. */
class CodeCell {
  static executed: [string, unknown][] = [];

  static async execute(cell: CodeCell, context: IContext): Promise<void> {
    CodeCell.executed.push([cell.code, context.session?.kernel ?? null]);
  }

  isDisposed = false;
  model = { type: 'code', executionState: 'idle' };

  constructor(readonly code: string) {}
}

class OwnCell extends CodeCell {}

function initializing() {
  const context = {
    session: null as { kernel: unknown } | null,
    kernelDisplayStatus: 'initializing',
    isDisposed: false,
    ready: new Promise<void>(() => undefined)
  };
  return Object.assign(context, {
    kernelChanged: new Signal<object, unknown>(context),
    statusChanged: new Signal<object, unknown>(context),
    disposed: new Signal<object, unknown>(context)
  });
}

const settled = () => new Promise(resolve => setTimeout(resolve));

it('cells that are run before there is a kernel wait for it, in their order', async () => {
  const context = initializing();
  const cells = ['a', 'b', 'c'].map(code => new OwnCell(code));
  queueEarlyCells(cells[0]);
  queueEarlyCells(cells[1]); // once
  const runs = cells.map(cell => OwnCell.execute(cell, context));
  context.kernelChanged.emit(undefined); // JupyterLab's, before it starts one
  await settled();
  expect(CodeCell.executed).toEqual([]);
  expect(cells[0].model.executionState).toBe('running');
  cells[1].isDisposed = true; // deleted meanwhile
  context.session = { kernel: 'new' };
  context.kernelChanged.emit(undefined);
  await Promise.all(runs);
  expect(CodeCell.executed.splice(0)).toEqual([
    ['a', 'new'],
    ['c', 'new']
  ]);
});

it('a cell does not wait for a kernel that could not be started, or for none', async () => {
  const context = initializing();
  const cell = new CodeCell('a');
  queueEarlyCells(cell);
  const run = CodeCell.execute(cell, context);
  context.kernelDisplayStatus = 'unknown';
  context.statusChanged.emit('unknown');
  await run;
  await CodeCell.execute(cell, context);
  expect(CodeCell.executed.splice(0)).toEqual([
    ['a', null],
    ['a', null]
  ]);
});

it('the buttons to restart go when the kernel starts again', () => {
  const text = { output_type: 'stream', text: 'kept' };
  let outputs: object[] = [text, { data: { [OUT_OF_STEP]: {} } }];
  const model = {
    outputs: {
      length: 2,
      toJSON: () => outputs,
      fromJSON: (values: object[]) => {
        outputs = values;
      }
    }
  };
  const sessionContext = {};
  const statusChanged = new Signal<object, string>(sessionContext);
  removeOnStart({
    sessionContext: { statusChanged },
    content: { widgets: [{ model: {} }, { model }] }
  });
  statusChanged.emit('busy');
  expect(outputs).toHaveLength(2);
  statusChanged.emit('restarting');
  expect(outputs).toEqual([text]);
});

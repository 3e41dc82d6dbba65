import { JupyterFrontEnd } from '@jupyterlab/application';
import { BoxPanel, Widget } from '@lumino/widgets';
import { afterAll, beforeEach, expect, it, vi } from 'vitest';

import { ChipsInUse } from '../kernels/chipsInUse';
import { KernelStarts } from '../kernels/kernelStarts';
import { IKernel } from '../rest/api';
import * as confirm from '../ui/confirm';
import {
  Answer,
  aKernel,
  connectedTPU,
  listOf,
  openModel,
  TestServerKernels
} from './server';

/** What is chosen; null: *Cancel*. */
const asked = vi.spyOn(confirm, 'choose');

beforeEach(() => {
  asked.mockReset();
  asked.mockResolvedValue(null);
});
afterAll(() => asked.mockRestore());

const tpu = connectedTPU();
const KERNELS = `tpus/${tpu.zone}~${tpu.name}/kernels`;
const [{ kernelspec }] = tpu.environments;
const refusal = {
  message: 'The chips are in use.',
  reason: 'CHIPS_HELD',
  hint: 'Stop k1.'
};

/** A notebook in JupyterLab whose kernel is started. */
function notebook(path: string) {
  const session: { id: string; kernel: { id: string } } | null = null;
  return Object.assign(new Widget(), {
    contentHeader: new BoxPanel(),
    sessionContext: { name: path, path, session }
  });
}

/** A page whose first starts are refused, as often as *times* says. */
async function openPage(holder: IKernel, times = 1) {
  let kernels = [holder];
  const shutDown: Answer = () => {
    kernels = [];
    return [204, null];
  };
  const { changes, model, server } = await openModel({
    ...listOf(tpu),
    [`GET ${KERNELS}`]: () => [200, kernels],
    [`DELETE ${KERNELS}/${holder.id}`]: shutDown
  });
  const [front, behind] = [notebook('front.ipynb'), notebook('behind.ipynb')];
  const shell = {
    currentWidget: front,
    widgets: () => [front, behind]
  } as unknown as JupyterFrontEnd.IShell;
  const here = new TestServerKernels();
  here.shutDown = async () => false;
  const starts = new KernelStarts();
  const chips = new ChipsInUse(shell, model, here);
  starts.refused.connect((_, start) => void chips.ask(start));
  starts.isWatched = true;
  const sent: Request[] = [];
  const fetch = starts.holding(async request => {
    sent.push(request as Request);
    return sent.length > times
      ? new Response('{}', { status: 201 })
      : new Response(JSON.stringify(refusal), { status: 409 });
  });
  const start = (name: string, kernel = kernelspec) =>
    fetch(
      new Request('http://localhost/hub/api/sessions?123', {
        method: 'POST',
        body: JSON.stringify({ path: 'a-uuid', name, kernel: { name: kernel } })
      })
    );
  const lineOf = ({ contentHeader }: typeof front) =>
    contentHeader.node.textContent;
  const press = ({ contentHeader }: typeof front, label: string) =>
    [...contentHeader.node.querySelectorAll('button')]
      .find(button => button.textContent === label)!
      .click();
  return {
    behind,
    changes,
    front,
    lineOf,
    press,
    sent,
    server,
    start
  };
}

const holder = aKernel({ id: 'k1', state: 'busy', chips: true });

it('asks in words before a start fails, shuts the holder down and starts', async () => {
  const { front, lineOf, sent, server, start } = await openPage(holder);
  asked.mockImplementationOnce(async (title, text, choices) => {
    expect(title).toBe(`Start a kernel on ${tpu.name}`);
    expect(choices).toEqual([
      'Start Without Chips',
      'Shut It Down and Start Here'
    ]);
    return 1;
  });
  expect((await start('front.ipynb')).status).toBe(201);
  expect(server.count(`DELETE ${KERNELS}/k1`)).toBe(1);
  expect(sent).toHaveLength(2);
  expect(lineOf(front)).toBe('');
});

it('starts without chips where the user wants that', async () => {
  const { sent, server, start } = await openPage(holder);
  asked.mockResolvedValueOnce(0);
  await start('front.ipynb');
  expect(sent[1].headers.get('X-Jupyter-TPU-Without-Chips')).toBe('1');
  expect(server.count(`DELETE ${KERNELS}/k1`)).toBe(0);
});

it('opens no dialog for a tab in the background, and its line goes with its cause', async () => {
  const { behind, changes, lineOf, press, start } = await openPage(holder);
  const started = start('behind.ipynb');
  await expect
    .poll(() => lineOf(behind))
    .toContain(`${tpu.name}’s chips are used by `);
  expect(asked).not.toHaveBeenCalled();
  changes.gone('kernel', 'k1');
  await expect
    .poll(() => lineOf(behind))
    .toBe(`The chips of ${tpu.name} are free now.Start Kernel`);
  press(behind, 'Start Kernel');
  expect((await started).status).toBe(201);
  expect(lineOf(behind)).toBe('');
});

it('gives a document that waits the kernel that its user chooses instead', async () => {
  const { front, lineOf, start } = await openPage(holder);
  const waiting = start('front.ipynb');
  await expect.poll(() => lineOf(front)).toContain('chips are used by');
  let later = 'nothing';
  void start('front.ipynb', 'python3').then(() => (later = 'an answer'));
  expect((await waiting).status).toBe(201);
  expect(later).toBe('nothing');
});

it('names what is no kernel of ours, and tries again', async () => {
  const { front, lineOf, press, sent, start } = await openPage(
    aKernel({ id: 'another', chips: false }),
    2
  );
  const started = start('front.ipynb');
  await expect.poll(() => lineOf(front)).toContain(refusal.message);
  press(front, 'Try Again');
  await expect.poll(() => sent.length).toBe(2);
  await expect.poll(() => lineOf(front)).toContain(refusal.message);
  press(front, 'Try Again');
  expect((await started).status).toBe(201);
});

import { Contents } from '@jupyterlab/services';
import { CommandRegistry } from '@lumino/commands';
import { expect, it, vi } from 'vitest';

import { Examples } from '../kernels/examples';
import { connectedTPU } from './server';

const [environment] = connectedTPU().environments;
const cells = [{ cell_type: 'code', source: 'mine' }];

function openExamples(kernelspec: object) {
  const content = { cells, metadata: { kernelspec, title: 'kept' } };
  const get = vi.fn().mockResolvedValue({ content });
  const save = vi.fn();
  const opened = vi.fn();
  const commands = { execute: opened } as unknown as CommandRegistry;
  const contents = { get, save } as unknown as Contents.IManager;
  return { examples: new Examples(contents, commands), get, opened, save };
}

it('gives the copy that the user has changed the kernel, and keeps the rest', async () => {
  const { examples, opened, save } = openExamples({ name: 'another' });
  await examples.open('jax-tour', environment);
  const name = environment.kernelspec;
  expect(save).toHaveBeenCalledWith('jax-tour.ipynb', {
    type: 'notebook',
    format: 'json',
    content: {
      cells,
      metadata: { kernelspec: { name, display_name: name }, title: 'kept' }
    }
  });
  const path = 'jax-tour.ipynb';
  expect(opened).toHaveBeenCalledWith('docmanager:open', { path });
});

it('saves nothing where the copy has the kernel', async () => {
  const { examples, opened, save } = openExamples({
    name: environment.kernelspec
  });
  await examples.open('jax-tour', environment);
  expect(save).not.toHaveBeenCalled();
  expect(opened).toHaveBeenCalled();
});

it('replaces no copy that it could not read', async () => {
  const { examples, get, save } = openExamples({ name: 'another' });
  get
    .mockReset()
    .mockRejectedValue(
      Object.assign(new Error('no access'), { response: { status: 403 } })
    );
  await expect(examples.open('jax-tour', environment)).rejects.toThrow();
  expect(save).not.toHaveBeenCalled();
});

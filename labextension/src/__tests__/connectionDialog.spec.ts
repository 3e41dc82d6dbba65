import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { expect, it, vi } from 'vitest';

import { closeConnectionDialog } from '../kernels/connectionDialog';
import { trans } from './server';

it('closes the dialog that the server is away when it answers again, and no other', async () => {
  let away = true;
  const request = vi
    .spyOn(ServerConnection, 'makeRequest')
    .mockImplementation(async () => {
      if (away) {
        throw new ServerConnection.NetworkError(new TypeError('refused'));
      }
      return new Response('{}');
    });
  closeConnectionDialog(ServerConnection.makeSettings(), trans);
  const headers = () =>
    [...document.querySelectorAll('.jp-Dialog-header')].map(
      header => header.textContent
    );
  const title = 'Server Connection Error';
  const another = showDialog({ title: 'Another question' }).catch(
    () => undefined
  );
  await expect.poll(headers).toEqual(['Another question']);
  Dialog.flush();
  await another;
  const shown = showDialog({ title });
  await expect.poll(headers).toEqual([title]);
  request.mockClear();
  await vi.waitFor(() => expect(request).toHaveBeenCalled(), 5000);
  expect(headers()).toEqual([title]);
  away = false;
  await shown;
  expect(headers()).toEqual([]);
  vi.restoreAllMocks();
});

// Uploads and downloads against a real HTTP server, up to the notifications.

import { createServer, IncomingMessage, Server } from 'node:http';
import { AddressInfo } from 'node:net';

import { Notification } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { download, upload } from '../files/transfers';
import { TPUModel } from '../model/model';
import { TPUClient } from '../rest/client';
import {
  answerDialog,
  button,
  dialogInputs,
  notified,
  shows,
  type,
  typeInDialog
} from './opened';
import { aTPU, TestChangeFeed } from './server';

const FILES = '/jupyter-tpu/v1/tpus/us-central1-a~my-tpu/hosts/0/files';

let server: Server;
let model: TPUModel;
/** What is on the host. */
let host: Map<string, string>;
/** Called before a file is written, when all of it has come. */
let beforeWrite: (request: IncomingMessage) => void;

beforeEach(async () => {
  host = new Map();
  beforeWrite = () => undefined;
  server = createServer(async (request, response) => {
    const url = new URL(request.url!, 'http://localhost');
    const path = url.searchParams.get('path')!;
    const chunks: Buffer[] = [];
    request.on('data', chunk => chunks.push(chunk as Buffer));
    await new Promise(done => request.on('end', done));
    const answer = (status: number, body: object) =>
      response
        .writeHead(status, {
          'Access-Control-Allow-Origin': request.headers.origin ?? '*',
          'Access-Control-Allow-Credentials': 'true',
          'Access-Control-Allow-Methods': 'PUT',
          'Access-Control-Allow-Headers': 'authorization, x-xsrftoken'
        })
        .end(JSON.stringify(body));
    const refuse = (status: number, reason: string) =>
      answer(status, { message: `It is ${reason}.`, reason, hint: '' });
    if (request.method === 'OPTIONS') {
      answer(200, {});
    } else if (url.pathname === FILES) {
      if (host.has(path)) {
        answer(200, { path, size: 1 });
      } else {
        refuse(404, 'NOT_FOUND');
      }
    } else if (url.pathname !== `${FILES}/content`) {
      refuse(404, 'INTERNAL');
    } else {
      beforeWrite(request);
      if (host.has(path) && url.searchParams.get('overwrite') !== 'true') {
        refuse(409, 'EXISTS');
      } else if (path.startsWith('full/')) {
        refuse(507, 'DISK_FULL');
      } else {
        host.set(path, Buffer.concat(chunks).toString());
        answer(201, { path, size: 1 });
      }
    }
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const settings = ServerConnection.makeSettings({
    baseUrl: `http://localhost:${port}/`,
    token: 'secret'
  });
  model = new TPUModel(new TPUClient(settings), new TestChangeFeed());
});

afterEach(() => new Promise<void>(done => server.close(() => done())));

/** Chooses files in the dialog that opens. */
async function choose(folder: string, ...names: string[]): Promise<void> {
  const [files, where] = await dialogInputs(2);
  files.required = false; // jsdom has no way to choose files
  Object.defineProperty(files, 'files', {
    value: names.map(name => new File([`content of ${name}`], name))
  });
  files.dispatchEvent(new Event('change', { bubbles: true }));
  type(where, folder);
  await answerDialog('Upload');
}

describe('an upload', () => {
  it('puts the chosen files into a folder', async () => {
    const done = upload(aTPU(), model);
    await choose('data/', 'a.csv', 'ä b.csv');
    await done;
    expect(Object.fromEntries(host)).toEqual({
      'data/a.csv': 'content of a.csv',
      'data/ä b.csv': 'content of ä b.csv'
    });
    expect(notified()).toEqual([
      'success: Uploaded data/ä b.csv to my-tpu',
      'success: Uploaded data/a.csv to my-tpu'
    ]);
  });

  it('asks before it overwrites, and leaves what is to stay', async () => {
    host.set('a', 'old').set('b', 'old');
    const done = upload(aTPU(), model);
    await choose('', 'a', 'b');
    expect(await answerDialog('Skip')).toContain('Overwrite a?');
    expect(await answerDialog('Overwrite')).toContain('Overwrite b?');
    await done;
    expect(Object.fromEntries(host)).toEqual({ a: 'old', b: 'content of b' });
  });

  it('asks, too, if the file was made meanwhile', async () => {
    beforeWrite = () => {
      host.set('a', 'theirs');
      beforeWrite = () => undefined;
    };
    const done = upload(aTPU(), model);
    await choose('', 'a');
    await answerDialog('Overwrite');
    await done;
    expect(host.get('a')).toBe('content of a');
  });

  it('says why it failed', async () => {
    const done = upload(aTPU(), model);
    await choose('full', 'a');
    await done;
    expect(notified()).toEqual([
      'error: full/a could not be uploaded: It is DISK_FULL.'
    ]);
  });

  it('can be cancelled', async () => {
    beforeWrite = () => {
      const [{ options, message }] = Notification.manager.notifications;
      expect(message).toBe('Uploading a to my-tpu');
      options.actions![0].callback({} as MouseEvent);
    };
    const done = upload(aTPU(), model);
    await choose('', 'a');
    await done;
    expect(notified()).toEqual([]);
  });
});

describe('a download', () => {
  const answer = async (path: string) => {
    await typeInDialog(path);
    await answerDialog('Download');
  };

  it('is the browser’s', async () => {
    host.set('runs/ä & b', 'x');
    const clicked: string[] = [];
    const onClick = (event: Event) => {
      clicked.push((event.target as HTMLAnchorElement).href);
      event.preventDefault();
    };
    document.addEventListener('click', onClick);
    const done = download(aTPU(), model);
    await answer('runs/ä & b');
    await done;
    document.removeEventListener('click', onClick);
    const url = new URL(clicked.pop()!);
    expect(url.pathname).toBe(`${FILES}/content`);
    expect(url.searchParams.get('path')).toBe('runs/ä & b');
  });

  it('of a file that is not there says so, and saves nothing', async () => {
    const done = download(aTPU(), model);
    await typeInDialog('missing');
    const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
    button(dialog, 'Download').click();
    await shows(dialog, 'It is NOT_FOUND.');
    const [path] = await dialogInputs(1);
    expect(path.value).toBe('missing'); // to be corrected
    type(path, 'another'); // pasted: one change
    expect(button(dialog, 'Download').disabled).toBe(false);
    await answerDialog('Cancel');
    await done;
    expect(document.querySelector('a[download]')).toBeNull();
  });
});

import { ServiceManager } from '@jupyterlab/services';
import { expect, it } from 'vitest';

import { Drives } from '../files/drives';
import { HostDrive } from '../files/hostDrive';
import { TestServer } from './server';

const PLACE = { name: 'my-tpu', zone: 'us-central1-a', host: 0 };
const HOST = 'tpus/us-central1-a~my-tpu/hosts/0';

function model(path: string, more: object = {}): object {
  const times = { created: '2026-01-01Z', last_modified: '2026-01-01Z' };
  const name = path.split('/').pop();
  const none = { content: null, format: null, mimetype: null, writable: true };
  return { name, path, type: 'directory', ...times, ...none, ...more };
}

class Storage {
  getItem = (key: string) => this._items.get(key) ?? null;
  setItem = (key: string, value: string) => void this._items.set(key, value);
  private _items = new Map<string, string>();
}

it('gives each host a drive, which is there again when the page is loaded', () => {
  const { settings } = new TestServer({});
  const storage = new Storage();
  const added: string[] = [];
  const contents = {
    addDrive: (drive: HostDrive) => added.push(drive.name)
  } as unknown as ServiceManager.IManager['contents'];
  const drives = new Drives(contents, settings, storage);
  const drive = drives.of(PLACE);
  expect(drives.of({ ...PLACE })).toBe(drive);
  drives.of({ ...PLACE, host: 3 });
  drives.of({ ...PLACE, zone: 'europe-west4-b' });
  const names = ['my-tpu', 'my-tpu-3', 'europe-west4-b~my-tpu'];
  expect(added).toEqual(names);
  new Drives(contents, settings, storage);
  expect(added).toEqual([...names, ...names]);
});

it('says which folders are listed in part', async () => {
  const path = `GET ${HOST}/contents`;
  const many = { content: [], format: 'json', left_out: 7 };
  const { settings } = new TestServer({
    [`${path}/home/me`]: [200, model('home/me', many)],
    [path]: [200, model('', { home: 'home/me' })]
  });
  const drive = new HostDrive(PLACE, settings);
  const partial: object[] = [];
  drive.partialFolder.connect((_, folder) => partial.push(folder));
  await drive.get(await drive.home());
  expect(partial).toEqual([{ path: 'home/me', listed: 0, left_out: 7 }]);
});

it('downloads over the route that streams', async () => {
  const drive = new HostDrive(PLACE, new TestServer({}).settings);
  expect(await drive.getDownloadUrl('home/me/a b')).toBe(
    `http://localhost/hub/jupyter-tpu/v1/${HOST}/files/content?path=%2Fhome%2Fme%2Fa%20b`
  );
});

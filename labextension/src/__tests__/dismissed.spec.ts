import { expect, it } from 'vitest';

import { TPUModel } from '../model/model';
import { TPUClient } from '../rest/client';
import { KeyValueStorage } from '../state/stored';
import { StoredIds } from '../state/storedIds';
import {
  anOperation,
  aTPU,
  listOf,
  TestChangeFeed,
  TestServer
} from './server';

/** A page that is loaded in the browser with *storage*. */
async function loadPage(storage: KeyValueStorage | null, server: TestServer) {
  const model = new TPUModel(
    new TPUClient(server.settings),
    new TestChangeFeed(),
    new StoredIds(storage, 'key')
  );
  await model.refresh();
  return model;
}

const ids = (model: TPUModel) => model.operations.map(({ id }) => id);

function failures(...ids: string[]): TestServer {
  return new TestServer({
    ...listOf(aTPU()),
    'GET operations': [200, ids.map(id => anOperation({ id, state: 'failed' }))]
  });
}

it('dismissed failures stay dismissed when the page is loaded again', async () => {
  const server = failures('o1', 'o2');
  const model = await loadPage(localStorage, server);
  expect(ids(model)).toEqual(['o1', 'o2']);
  model.dismiss('o1');
  expect(ids(model)).toEqual(['o2']);
  expect(ids(await loadPage(localStorage, server))).toEqual(['o2']);
});

it('two tabs keep what either has dismissed', async () => {
  const server = failures('o1', 'o2', 'o3');
  const one = await loadPage(localStorage, server);
  const two = await loadPage(localStorage, server);
  one.dismiss('o1');
  two.dismiss('o2');
  expect(ids(await loadPage(localStorage, server))).toEqual(['o3']);
});

it('two tabs keep what either stores while the other deletes or forgets', () => {
  const one = new StoredIds(localStorage, 'key');
  one.add('old');
  one.add('gone');
  const two = new StoredIds(localStorage, 'key');
  one.add('new');
  two.delete('old');
  expect(localStorage.getItem('key')).toBe('["gone","new"]');
  one.add('newer');
  two.retain(['new', 'newer']);
  expect(localStorage.getItem('key')).toBe('["new","newer"]');
});

it('the newest are kept where nothing is forgotten', () => {
  const ids = new StoredIds(localStorage, 'key');
  for (let number = 0; number < 600; number++) {
    ids.add(`${number}`);
  }
  const stored = JSON.parse(localStorage.getItem('key')!);
  expect(stored).toHaveLength(500);
  expect(stored[499]).toBe('599');
});

it('what the server has forgotten is forgotten', async () => {
  (await loadPage(localStorage, failures('o1', 'o2'))).dismiss('o1');
  await loadPage(localStorage, failures('o2'));
  expect(localStorage.getItem('key')).toBe('[]');
});

it('a browser that keeps nothing does no harm', async () => {
  const refusing: KeyValueStorage = {
    getItem: () => {
      throw new Error('no access');
    },
    setItem: () => {
      throw new Error('no access');
    }
  };
  for (const storage of [refusing, null]) {
    const model = await loadPage(storage, failures('o1'));
    model.dismiss('o1');
    expect(ids(model)).toEqual([]);
  }
});

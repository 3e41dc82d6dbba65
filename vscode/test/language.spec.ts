import { createServer } from 'node:http';
import { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';

import {
  anOperation,
  connectedTPU
} from '../../labextension/src/__tests__/server';
import {
  language,
  loadCatalogue,
  trans
} from '../../labextension/src/language/translation';
import { Resources } from '../../labextension/src/model/resources';
import { ITPU } from '../../labextension/src/rest/api';
import { StoredIds } from '../../labextension/src/state/storedIds';
import { NodeClient } from '../src/client';
import { explanation } from '../src/explanation';
import { remedyNodes, rootNodes, summary } from '../src/nodes';
import { Session } from '../src/session';

/** As VS Code gives it: of l10n/bundle.l10n.zh-cn.json. */
const TEXTS = {
  '%1 TPU': ['%1 个 TPU'],
  '%1, hunting': ['%1，正在搜寻'],
  'Host %1': ['主机 %1'],
  'Install It': ['安装'],
  'jupyter-tpu is not installed in %1. Install it with: %1 -m pip install jupyter-tpu':
    ['%1 中未安装 jupyter-tpu。请运行：%1 -m pip install jupyter-tpu']
};

beforeAll(() => loadCatalogue(TEXTS, 'zh-cn'));

afterAll(() => loadCatalogue({}, 'en'));

it('shows the tree, the status bar and what to do in the language of VS Code', () => {
  const resources = new Resources(new StoredIds());
  const hunt = anOperation({ id: 'h1', kind: 'hunt', tpu: 'other' });
  const hosts = [{ index: 0, link: { state: 'up', problem: null } }];
  resources.replaceAll([connectedTPU({ hosts } as unknown as ITPU)], [hunt]);
  const nodes = rootNodes(resources, null);
  const labels = nodes
    .flatMap(node => node.children ?? [])
    .map(one => one.label);
  expect(labels).toContain('主机 0');
  expect(summary(resources).text).toBe('1 个 TPU，正在搜寻');
  const session = { state: 'missing', message: '', python: '/p' } as Session;
  expect(explanation(session)).toBe(
    '/p 中未安装 jupyter-tpu。请运行：/p -m pip install jupyter-tpu'
  );
  expect(remedyNodes('missing')[0].label).toBe('安装');
});

it('asks the server for that language', async () => {
  let asked: string | undefined;
  const server = createServer((request, response) => {
    asked = request.headers['accept-language'];
    response.end('[]');
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/`;
  await new NodeClient({ url, token: '', pid: 0 }).operations.list();
  server.close();
  expect(asked).toBe('zh-cn');
});

it('stays English where the bundle has nothing, and has the language for dates', () => {
  expect(trans.__('Not in the bundle')).toBe('Not in the bundle');
  expect(trans._n('%1 mouse', '%1 mice', 2)).toBe('2 mice');
  expect(language).toBe('zh-cn');
});

import { JupyterFrontEndPlugin, JupyterLab } from '@jupyterlab/application';
import application from '@jupyterlab/application/package.json';
import {
  IRenderMimeRegistry,
  RenderMimeRegistry
} from '@jupyterlab/rendermime';
import {
  IServerSettings,
  ServerConnection,
  ServiceManager,
  ServiceManagerPlugin
} from '@jupyterlab/services';
import { PluginRegistry } from '@lumino/coreutils';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import packageJson from '../../../package.json';
import { compatibilityProblem, SUPPORTED } from '../app/compatibility';
import plugins from '../index';
import { ITPUActions, ITPUModel } from '../tokens';
import { TestServer } from './server';

const IDS = [
  'jupyter-tpu:compatibility',
  'jupyter-tpu:model',
  'jupyter-tpu:commands',
  'jupyter-tpu:panel',
  'jupyter-tpu:apps',
  'jupyter-tpu:drive',
  'jupyter-tpu:file-menu',
  'jupyter-tpu:kernel-replay',
  'jupyter-tpu:kernel-starts',
  'jupyter-tpu:kernel-socket',
  'jupyter-tpu:kernel-filter',
  'jupyter-tpu:kernel-connections',
  'jupyter-tpu:connection-dialog',
  'jupyter-tpu:running-cells',
  'jupyter-tpu:save-on-run',
  'jupyter-tpu:early-cells',
  'jupyter-tpu:kernelspecs',
  'jupyter-tpu:chips-in-use',
  'jupyter-tpu:dead-kernels',
  'jupyter-tpu:runs',
  'jupyter-tpu:jobs',
  'jupyter-tpu:pod-output',
  'jupyter-tpu:sessions',
  'jupyter-tpu:notifications',
  'jupyter-tpu:running',
  'jupyter-tpu:status-bar'
];

/** JupyterLab's own plugin, which ours takes the place of. */
const defaultSettings: ServiceManagerPlugin<ServerConnection.ISettings> = {
  id: '@jupyterlab/services-extension:server-settings',
  description: 'The default server settings.',
  autoStart: true,
  provides: IServerSettings,
  activate: () => ServerConnection.makeSettings()
};

/** JupyterLab's own, which is asked for what shows outputs. */
const rendermime: JupyterFrontEndPlugin<IRenderMimeRegistry> = {
  id: '@jupyterlab/rendermime-extension:plugin',
  description: 'The default renderers.',
  autoStart: true,
  provides: IRenderMimeRegistry,
  activate: () => new RenderMimeRegistry()
};

beforeEach(() => {
  const api = 'GET http://localhost/hub/api';
  const server = new TestServer({
    [`${api}/kernels`]: [200, []],
    [`${api}/kernelspecs`]: [200, { default: '', kernelspecs: {} }],
    [`${api}/me`]: [200, { identity: { username: '' }, permissions: {} }],
    [`${api}/sessions`]: [200, []],
    [`${api}/terminals`]: [200, []]
  });
  vi.spyOn(ServerConnection, 'makeSettings').mockReturnValue({
    ...server.settings,
    WebSocket: class extends EventTarget {
      close() {}
    } as never
  });
});

afterEach(() => {
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

/** A JupyterLab with our plugins, but without those that are disabled. */
async function startLab(...disabled: string[]) {
  const registry = new PluginRegistry();
  registry.registerPlugins([
    defaultSettings,
    rendermime,
    ...plugins.filter(({ id }) => !disabled.includes(id))
  ] as never);
  const serverSettings = await registry.resolveRequiredService(IServerSettings);
  const app = new JupyterLab({
    pluginRegistry: registry as never,
    serviceManager: new ServiceManager({ serverSettings })
  } as never);
  const errors = vi.spyOn(console, 'error').mockReturnValue();
  await app.start({ hostID: document.body.id });
  return { app, registry, serverSettings, errors };
}

it('each part is a plugin of its own, which says what it does', () => {
  expect(plugins.map(({ id }) => id)).toEqual(IDS);
  for (const { id, description } of plugins) {
    expect(description, id).toMatch(/^[A-Z].+\.$/);
  }
});

it('all are activated', async () => {
  const { app, registry, errors } = await startLab();
  for (const id of IDS) {
    expect(registry.isPluginActivated(id), id).toBe(true);
  }
  expect(app.commands.hasCommand('tpu:open-panel')).toBe(true);
  expect(errors).not.toHaveBeenCalled();
});

it.each(IDS)('without %s the parts that do not need it work', async id => {
  const { app, registry } = await startLab(id);
  const needed: { [token: string]: string } = {
    [ITPUModel.name]: 'jupyter-tpu:model',
    [ITPUActions.name]: 'jupyter-tpu:commands',
    'jupyter-tpu:IKernelReplay': 'jupyter-tpu:kernel-replay',
    'jupyter-tpu:IKernelStarts': 'jupyter-tpu:kernel-starts'
  };
  const works = (other: string): boolean =>
    other !== id &&
    (plugins.find(plugin => plugin.id === other)!.requires ?? []).every(
      token => !(token.name in needed) || works(needed[token.name])
    );
  for (const plugin of IDS) {
    const active =
      registry.hasPlugin(plugin) && registry.isPluginActivated(plugin);
    expect(active, plugin).toBe(works(plugin));
  }
  expect(app.commands.hasCommand('tpu:open-panel')).toBe(
    works('jupyter-tpu:panel')
  );
});

it('sockets to kernels are ours, and JupyterLab’s where that is disabled', async () => {
  const url = 'ws://localhost/api/kernels/k/channels?session_id=me';
  const ours = await startLab();
  expect(new ours.serverSettings.WebSocket(url)).not.toBeInstanceOf(
    EventTarget
  );
  for (const disabled of [
    'jupyter-tpu:kernel-socket',
    'jupyter-tpu:kernel-replay'
  ]) {
    const { serverSettings } = await startLab(disabled);
    expect(new serverSettings.WebSocket(url)).toBeInstanceOf(EventTarget);
  }
});

it('sockets of kernels elsewhere are JupyterLab’s, also without notifications of connections', async () => {
  const kernel = { id: 'k', name: 'python3' };
  const { app, serverSettings } = await startLab(
    'jupyter-tpu:kernel-connections'
  );
  const { kernels, kernelspecs } = app.serviceManager;
  vi.spyOn(kernels, 'running').mockReturnValue([kernel].values() as never);
  vi.spyOn(kernelspecs, 'specs', 'get').mockReturnValue({
    default: '',
    kernelspecs: { python3: { metadata: {} } }
  } as never);
  const url = 'ws://localhost/api/kernels/k/channels?session_id=me';
  expect(new serverSettings.WebSocket(url)).toBeInstanceOf(EventTarget);
});

it.each<[string, string, boolean]>([
  ['JupyterLab', '4.4.0', true],
  ['JupyterLab', '4.7.1', true],
  ['JupyterLab', '4.3.8', false],
  ['JupyterLab', '5.0.0', false],
  ['Jupyter Notebook', '7.4.0', true],
  ['Jupyter Notebook', '7.3.3', false],
  ['Another Application', '1.0', true],
  ['JupyterLab', 'unknown', true]
])('%s %s is supported: %s', (name, version, supported) => {
  const problem = compatibilityProblem({ name, version });
  expect(problem === null).toBe(supported);
  if (!supported) {
    expect(problem).toContain(version);
  }
});

it('what is supported is what the extension is built for and what the page has to have', () => {
  const [major, minor] = SUPPORTED.JupyterLab;
  const { dependencies, jupyterlab } = packageJson;
  expect(dependencies['@jupyterlab/application']).toBe(`^${major}.${minor}.0`);
  const ofJupyterLab = Object.entries(dependencies)
    .filter(([name]) => name.startsWith('@jupyterlab/'))
    .map(([name, requiredVersion]) => [name, { requiredVersion }]);
  expect(jupyterlab.sharedPackages).toEqual(Object.fromEntries(ofJupyterLab));
  // What the compiler reads: newer names do not exist.
  expect(application.version).toMatch(new RegExp(`^${major}\\.${minor}\\.`));
});

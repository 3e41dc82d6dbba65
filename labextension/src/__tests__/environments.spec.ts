import { describe, expect, it } from 'vitest';

import { submit } from '../lifecycle/formPage';
import { IEnvironment, IFoundPython, IProblem, ITPU } from '../rest/api';
import {
  aKernel,
  aLoss,
  anOperation,
  answerDialog,
  aProblem,
  button,
  connectedTPU,
  field,
  hides,
  listOf,
  openPage,
  openPanel,
  press,
  refused,
  shows,
  someHosts,
  type
} from './opened';

const PATH = 'tpus/us-central1-a~my-tpu';
const PROBLEM: IProblem = aProblem(
  'Package matplotlb was not found.',
  'ENVIRONMENT',
  'Correct the packages.'
);
const [READY] = connectedTPU().environments;
const TYPO: IEnvironment = {
  ...READY,
  name: 'typo',
  state: 'failed',
  python: '',
  kernelspec: '',
  problem: PROBLEM,
  asked: {
    environment: 'typo',
    python: '3.12',
    packages: ['flax', 'matplotlb'],
    requirements: '-c constraints\n'
  }
};
const FAILED = anOperation({
  state: 'failed',
  problem: PROBLEM,
  log: ['Because matplotlb was not found in the package registry …']
});

/** How often it says so. */
function count(node: HTMLElement, text: string): number {
  return node.textContent!.split(text).length - 1;
}

describe('an environment that failed', () => {
  it.each([
    ['beside one that is ready', [READY, TYPO], null],
    ['as the only one, which the TPU then says too', [TYPO], PROBLEM]
  ])('says so once, %s', async (_, environments, problem) => {
    const tpu = connectedTPU({ environments, problem });
    const { node } = await openPanel({
      ...listOf(tpu),
      'GET operations': [200, [{ ...FAILED, log: [] }]],
      'GET operations/o1': [200, FAILED]
    });
    await shows(node, 'Environment typo: Package matplotlb was not found.');
    expect(count(node, 'matplotlb')).toBe(1);
    expect(node.textContent).not.toContain('could not be connected');
    button(node, 'my-tpu').click();
    await shows(node, 'incomplete');
    const page = node.querySelector<HTMLElement>('.jp-tpu-Page')!;
    expect(count(page, 'matplotlb')).toBe(1);
    // uv's words are there for those who want them.
    button(page, 'Show details').click();
    await shows(page, 'not found in the package registry');
  });

  it('is fixed in the form, which has what was asked for, and then says nothing', async () => {
    const { changes, node, server } = await openPanel({
      ...listOf(connectedTPU({ environments: [TYPO] })),
      'GET operations': [200, [FAILED]],
      [`POST ${PATH}/connect`]: [
        202,
        anOperation({ id: 'o2', created: '2026-10-14T10:01:00Z' })
      ]
    });
    button(node, 'Fix…').click();
    await shows(node, 'Environment typo', 'Python version');
    expect(field(node, 'Python version').value).toBe('3.12');
    expect(field(node, 'Requirements file').value).toBe('-c constraints\n');
    const packages = field(node, 'Python packages');
    expect(packages.value).toBe('flax\nmatplotlb');
    type(packages, 'flax, matplotlib');
    button(node, 'Create').click();
    await shows(node, 'Connecting my-tpu');
    expect(server.posts[0]).toEqual({
      environment: 'typo',
      framework: 'jax',
      python: '3.12',
      packages: ['flax', 'matplotlib'],
      requirements: '-c constraints\n',
      replace_setup: true
    });
    const done = { ...TYPO, state: 'ready' as const, problem: null };
    changes.tpu(connectedTPU({ environments: [done] }));
    changes.operation(
      anOperation({ id: 'o2', created: '2026-10-14T10:01:00Z', state: 'done' })
    );
    await shows(node, 'Connected my-tpu');
    expect(node.textContent).not.toContain('matplotlb');
    expect(node.textContent).not.toContain('could not be connected');
  });

  it('asks for all of a form that was emptied, not for what failed before', async () => {
    const { actions, server } = await openPanel({
      ...listOf(connectedTPU({ environments: [TYPO] })),
      [`POST ${PATH}/connect`]: [202, anOperation()]
    });
    const [tpu] = actions.model.tpus;
    await actions.openConnectForm(tpu, TYPO);
    const form = actions.forms.connect;
    form.set('python', null);
    form.set('packages', []);
    form.set('requirements', '');
    await submit(actions, form);
    // With null for the requirements, the server would repeat what was asked for before.
    expect(server.posts[0]).toEqual({
      environment: 'typo',
      framework: 'jax',
      python: null,
      packages: [],
      requirements: '',
      replace_setup: true
    });
  });

  it('is asked for with what hosts get beside Python, which *More* has', async () => {
    const setup = {
      apt: ['ffmpeg'],
      timezone: 'Asia/Tokyo',
      oh_my_zsh: false,
      script: 'echo 1\n'
    };
    const asked = { ...TYPO.asked!, setup };
    const { node, server } = await openPanel({
      ...listOf(connectedTPU({ environments: [{ ...TYPO, asked }] })),
      [`POST ${PATH}/connect`]: [202, anOperation()]
    });
    button(node, 'Fix…').click();
    await shows(node, 'Environment typo', 'Setup script');
    expect(field(node, 'Setup script').value).toBe('echo 1\n');
    type(field(node, 'apt packages'), 'ffmpeg, tree');
    type(field(node, 'Time zone'), '');
    button(node, 'Create').click();
    await shows(node, 'Connecting my-tpu');
    expect(server.posts[0]).toEqual({
      ...asked,
      framework: 'jax',
      setup: { ...setup, apt: ['ffmpeg', 'tree'], timezone: '' },
      replace_setup: true
    });
  });

  it('can be tried again where its packages are not the reason', async () => {
    const full = aProblem('Full.', 'DISK_FULL');
    const tpu = connectedTPU({ environments: [{ ...TYPO, problem: full }] });
    const { node, server } = await openPanel({
      ...listOf(tpu),
      [`POST ${PATH}/connect`]: [202, anOperation()]
    });
    await shows(node, 'Environment typo: Full.');
    expect(() => button(node, 'Fix…')).toThrow();
    button(node, 'Try Again').click();
    await shows(node, 'Connecting my-tpu');
    expect(server.posts).toEqual([{ environment: 'typo' }]);
  });

  it('leaves nothing when its TPU is deleted', async () => {
    const { changes, node } = await openPanel({
      ...listOf(connectedTPU({ environments: [TYPO] })),
      'GET operations': [200, [FAILED]]
    });
    await shows(node, 'matplotlb');
    changes.gone('tpu', 'us-central1-a/my-tpu');
    await shows(node, 'No TPUs yet');
    expect(node.textContent).not.toMatch(/matplotlb|Try Again/);
  });
});

describe('removing an environment', () => {
  it('asks, names only its kernels, and is asked for on the server', async () => {
    const theirs = aKernel({ id: 'k2', notebook: 'b.ipynb', environment: 'b' });
    let environments = [READY];
    const { changes, node, server } = await openPage(connectedTPU(), {
      [`GET ${PATH}/kernels`]: [200, [aKernel(), theirs]],
      [`GET ${PATH}/consequences`]: aLoss({
        kernels: [aKernel()],
        kernels_text: 'This shuts down 1 kernel on my-tpu.',
        lost: ['This removes its packages from my-tpu.']
      }),
      [`DELETE ${PATH}/environments/default`]: () => {
        environments = [];
        return [202, anOperation({ kind: 'environment' })];
      }
    });
    await press(node, 'Remove default…');
    await shows(document.body, 'Remove the environment default?', 'Untitled');
    const dialog = document.querySelector<HTMLElement>('.jp-Dialog')!;
    expect(dialog.textContent).toContain('This shuts down 1 kernel on my-tpu.');
    expect(dialog.textContent).toContain('This removes its packages');
    const { query } = server.calls.find(one => one.path.includes('consequen'))!;
    expect(query).toContain('act=remove-environment&environment=default');
    expect(environments).toEqual([READY]);
    button(dialog, 'Remove').click();
    await shows(node, 'Changing an environment on my-tpu');
    expect(server.calls.find(one => one.method === 'DELETE')!.body).toEqual({
      end_kernels: true
    });
    // Nothing else is done with it meanwhile.
    expect(() => button(node, 'Remove default…')).toThrow();
    changes.tpu(connectedTPU({ environments }));
    await hides(node, 'JAX 0.7.2');
  });
});

describe('an environment of several hosts', () => {
  it('says on which hosts the last check found other versions', async () => {
    const different = [{ host: 1, versions: 'numpy 1.0 instead of 2.0' }];
    const versions = { time: '2026-10-14T10:00:00Z', different, unchecked: [] };
    const tpu = connectedTPU({ environments: [{ ...READY, versions }] });
    const { node } = await openPage(tpu);
    await shows(node, 'Different versions on host 1');
    const label = node.querySelector<HTMLElement>('[title^="Host 1"]')!;
    expect(label.title).toMatch(
      /^Host 1: numpy 1.0 instead of 2.0\nChecked at /
    );
  });
});

describe('a new environment', () => {
  it('starts with the packages and the Python of what is there, and a free name', async () => {
    const there: ITPU = connectedTPU({
      environments: [{ ...READY, packages: ['flax', 'optax'] }, TYPO]
    });
    const { commands, node } = await openPanel(listOf(there));
    await commands.execute('tpu:new-environment');
    await shows(node, 'It starts with the packages of default.');
    expect(node.textContent).not.toContain('Setup script');
    button(node, 'More').click();
    await shows(node, 'Setup script');
    expect(field(node, 'Name').value).toBe('another');
    expect(field(node, 'Python version').value).toBe('3.12');
    expect(field(node, 'Python packages').value).toBe('flax\noptax');
    expect(button(node, 'Create').type).toBe('submit');
    type(field(node, 'Name'), 'typo');
    await shows(node, 'An environment with this name already exists.');
  });
});

describe('the packages of an environment', () => {
  const jax = { name: 'jax', version: '0.7.2', requested: false };
  const einops = { name: 'einops', version: '0.8.1', requested: true };
  const yaml = { name: 'ruamel.yaml', version: '0.18', requested: true };
  const needed = { required: true };
  const other = { required: false };

  async function openPackages(answers = {}) {
    let installed = [
      { ...einops, ...other },
      { ...jax, ...needed },
      { ...yaml, ...other }
    ];
    const opened = await openPage(connectedTPU(), {
      [`GET ${PATH}/environments/default/packages`]: () => [200, installed],
      [`POST ${PATH}/environments/default/packages`]: [
        202,
        anOperation({ kind: 'environment' })
      ],
      ...answers
    });
    const { node } = opened;
    await press(node, 'Packages of default…');
    await shows(node, 'Packages of default', 'Added', 'einops0.8.1');
    return {
      ...opened,
      remains: (...now: typeof installed) => (installed = now)
    };
  }

  it('are listed with versions, and can be filtered', async () => {
    const { node } = await openPackages();
    await shows(node, 'jax0.7.2');
    expect(() => button(node, 'Remove jax')).toThrow();
    type(field(node, 'Installed'), 'ruamel_Y');
    await hides(node, 'einops0');
    await shows(node, 'ruamel.yaml0.18');
    type(field(node, 'Installed'), 'nothing');
    await shows(node, 'No package matches the filter.');
  });

  it('are added, with progress, and what failed is said in one sentence', async () => {
    const { changes, node, server } = await openPackages();
    const running = anOperation({ kind: 'environment', progress: 0.5 });
    type(field(node, 'Add packages'), 'flax  matplotlb');
    await press(node, 'Add');
    await shows(node, 'Changing an environment on my-tpu');
    expect(server.posts).toEqual([{ add: ['flax', 'matplotlb'] }]);
    changes.operation(running);
    expect(button(node, 'Add').disabled).toBe(true);
    changes.operation({ ...running, state: 'failed', problem: PROBLEM });
    await shows(node, 'Package matplotlb was not found.', 'Show details');
    expect(field(node, 'Add packages').value).toBe('flax  matplotlb');
    // It was seen here, and is not repeated in the list.
    button(node, 'Back to the list').click();
    await shows(node, 'New Notebook');
    expect(node.textContent).not.toContain('matplotlb');
  });

  it('that could not be added when the page was left are said in the list, which leads back', async () => {
    const { changes, node } = await openPackages();
    type(field(node, 'Add packages'), 'matplotlb');
    await press(node, 'Add');
    await shows(node, 'Changing an environment on my-tpu');
    button(node, 'Back to the list').click();
    changes.operation({ ...FAILED, kind: 'environment' });
    await shows(node, 'An environment on my-tpu could not be changed');
    button(node, 'Packages…').click();
    await shows(node, 'Package matplotlb was not found.');
    expect(field(node, 'Add packages').value).toBe('matplotlb');
  });

  it('that were added are in the list, and the field is free for others', async () => {
    const { changes, node, remains } = await openPackages();
    type(field(node, 'Add packages'), 'flax');
    await press(node, 'Add');
    await shows(node, 'Changing an environment on my-tpu');
    remains({ name: 'flax', version: '0.10', requested: true, ...other });
    changes.operation(anOperation({ kind: 'environment', state: 'done' }));
    await shows(node, 'flax0.10');
    expect(field(node, 'Add packages').value).toBe('');
  });

  it('are removed by their button, and a refusal is shown', async () => {
    const path = `POST ${PATH}/environments/default/packages`;
    const { node, server } = await openPackages({
      [path]: refused('It is busy.')
    });
    button(node, 'Remove einops').click();
    await shows(node, 'It is busy.');
    expect(server.posts).toEqual([{ remove: ['einops'] }]);
  });

  it('say why they can’t be listed, and are asked for again', async () => {
    let answer: [number, unknown] = refused('No link.');
    const { actions, node } = await openPanel({
      ...listOf(connectedTPU()),
      [`GET ${PATH}/environments/default/packages`]: () => answer
    });
    actions.openPackages(actions.model.tpus[0], READY);
    await shows(node, 'No link.');
    answer = [200, [{ ...einops, ...other }]];
    button(node, 'Try Again').click();
    await shows(node, 'einops0.8.1');
  });
});

describe('the Python environments on the hosts', () => {
  const VENV: IFoundPython = {
    path: '/home/me/venv/bin/python',
    prefix: '/home/me/venv',
    kind: 'venv',
    version: '3.10.12',
    ipykernel: '',
    jax: '0.4.30',
    installable: true,
    environment: '',
    name: 'venv',
    missing: [],
    different: [],
    problem: '',
    base: false
  };
  const BROKEN = {
    ...VENV,
    path: '/home/me/old/bin/python',
    problem: 'It is missing on host 1.'
  };

  it('are found by a click, and become a kernel by another, after the question', async () => {
    const { node, server } = await openPage(connectedTPU(), {
      [`GET ${PATH}/pythons`]: [
        200,
        {
          pythons: [VENV, BROKEN],
          asked: '',
          problems: ['Host 3 did not answer.']
        }
      ],
      [`POST ${PATH}/connect`]: [202, anOperation()]
    });
    await shows(node, 'Find environments');
    expect(server.count(`GET ${PATH}/pythons`)).toBe(0);
    button(node, 'Find virtual environments on the hosts').click();
    await shows(node, 'Python 3.10.12 · JAX 0.4.30 · no ipykernel');
    await shows(node, 'It is missing on host 1.');
    await shows(node, 'Host 3 did not answer.');
    button(node, `Add a kernel for ${VENV.path}`).click();
    expect(await answerDialog('Cancel')).toContain(
      'Installed packages are not changed.'
    );
    expect(server.count(`POST ${PATH}/connect`)).toBe(0);
    button(node, `Add a kernel for ${VENV.path}`).click();
    await answerDialog('Install');
    await server.receives(`POST ${PATH}/connect`, {
      environment: 'venv',
      python_path: VENV.path,
      install_ipykernel: true
    });
  });
});

it('the hosts of a pod are given the same packages by a click', async () => {
  const pod = connectedTPU({ hosts: someHosts(2) });
  const { node, server } = await openPage(pod, {
    [`POST ${PATH}/environments/default/sync`]: [202, anOperation()]
  });
  await shows(node, 'Sync Hosts');
  button(
    node,
    'Give all hosts the packages that default has on host 0'
  ).click();
  await server.counts(`POST ${PATH}/environments/default/sync`);
});

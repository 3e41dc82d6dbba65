import { expect, it } from 'vitest';

import { packagesIn } from '../ui/packages';

it.each([
  ['', []],
  [' , \n', []],
  ['einops', ['einops']],
  ['einops tqdm', ['einops', 'tqdm']],
  ['einops,tqdm\nflax, optax', ['einops', 'tqdm', 'flax', 'optax']],
  ['flax>=0.8,<1 optax==0.2.*', ['flax>=0.8,<1', 'optax==0.2.*']],
  ['flax >= 0.8, < 1, optax', ['flax >= 0.8, < 1', 'optax']],
  [
    'jax[tpu] ruamel.yaml[a, b]~=0.1, x',
    ['jax[tpu]', 'ruamel.yaml[a, b]~=0.1', 'x']
  ],
  [
    'flax @ git+https://github.com/google/flax, optax',
    ['flax @ git+https://github.com/google/flax', 'optax']
  ],
  [
    "tomli>=2; python_version < '3.11'\neinops",
    ["tomli>=2; python_version < '3.11'", 'einops']
  ],
  [
    'https://x.org/a-1,b.whl git+https://x.org/y#egg=y',
    ['https://x.org/a-1,b.whl', 'git+https://x.org/y#egg=y']
  ],
  ['einops # for tests\n# tqdm\nflax', ['einops', 'flax']],
  [
    'torch>=2  # --index-url https://x.org/whl/cpu\neinops # --index',
    ['torch>=2  # --index-url https://x.org/whl/cpu', 'einops']
  ],
  [
    "torch; python_version > '3'  # --index-url https://x.org/whl",
    ["torch; python_version > '3'  # --index-url https://x.org/whl"]
  ],
  ['foo@bar!, einops', ['foo@bar!', 'einops']],
  ['$x,einops', ['$x', 'einops']]
])('reads the packages in %j', (text, packages) => {
  expect(packagesIn(text)).toEqual(packages);
});

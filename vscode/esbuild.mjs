// Bundles the extension into out/extension.js: what it shares with the panel is in it, too.

import { build } from 'esbuild';

const production = process.argv.includes('--production');

await build({
  entryPoints: ['src/extension.ts'],
  absWorkingDir: import.meta.dirname,
  outfile: 'out/extension.js',
  bundle: true,
  external: ['vscode'],
  format: 'cjs',
  platform: 'node',
  target: 'node22',
  minify: production,
  sourcemap: !production,
  legalComments: 'none',
  logLevel: 'warning'
});

// Bundles the extension into out/extension.js (what it shares with the panel is in it, too), and what shows
// widgets into out/widgets.js and out/widgets.css, which VS Code loads with the first widget.

import { build } from 'esbuild';
import { readFile } from 'node:fs/promises';

const production = process.argv.includes('--production');

const shared = {
  absWorkingDir: import.meta.dirname,
  bundle: true,
  minify: production,
  sourcemap: !production,
  legalComments: 'none',
  logLevel: 'warning'
};

/** anywidget is published for RequireJS only. */
const anywidget = {
  name: 'anywidget',
  setup: ({ onLoad }) =>
    onLoad(
      { filter: /anywidget[/\\]dist[/\\]index\.js$/ },
      async ({ path }) => {
        const text = await readFile(path, 'utf8');
        const end = /\bdefine\(\["@jupyter-widgets\/base"\], (\w+)\);\s*$/;
        if (!end.test(text)) {
          throw new Error(`${path} does not end with define(…)`);
        }
        return { contents: text.replace(end, 'export default $1;') };
      }
    )
};

await Promise.all([
  build({
    ...shared,
    entryPoints: ['src/extension.ts'],
    outfile: 'out/extension.js',
    external: ['vscode'],
    format: 'cjs',
    platform: 'node',
    target: 'node22'
  }),
  build({
    ...shared,
    entryPoints: { widgets: 'widgets/src/renderer.ts' },
    outdir: 'out',
    format: 'esm',
    target: 'es2022',
    // Its styles are in widgets.css.
    loader: { '.css': 'empty', '.svg': 'text' },
    plugins: [anywidget]
  }),
  build({
    ...shared,
    entryPoints: ['widgets/src/widgets.css'],
    outdir: 'out',
    // All browsers of today have woff2.
    loader: {
      '.woff2': 'file',
      '.woff': 'empty',
      '.ttf': 'empty',
      '.eot': 'empty',
      '.svg': 'empty'
    },
    assetNames: '[name]'
  })
]);

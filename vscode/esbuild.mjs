// Bundles the extension into out/extension.js (what it shares with the panel is in it, too), and what shows
// widgets into out/widgets.js and out/widgets.css, which VS Code loads with the first widget. The licenses of
// what others wrote are in out/licenses.txt.

import { build } from 'esbuild';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const production = process.argv.includes('--production');

const top = import.meta.dirname;
const shared = {
  absWorkingDir: top,
  bundle: true,
  minify: production,
  sourcemap: !production,
  legalComments: 'none',
  metafile: true,
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

/** The licenses of the packages that are in what was built. */
async function licenses(results) {
  const files = results.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const folders = files.flatMap(
    file => /^[^(].*node_modules\/(@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []
  );
  const texts = new Map();
  for (const folder of [...new Set(folders)].filter(one =>
    one?.includes('/')
  )) {
    const path = join(top, folder);
    const { license, name } = JSON.parse(
      await readFile(join(path, 'package.json'), 'utf8')
    );
    const own = (await readdir(path)).filter(one => /^licen[sc]e/i.test(one));
    const text = own.map(one => readFile(join(path, one), 'utf8'));
    texts.set(name, [license, ...(await Promise.all(text))].join('\n\n'));
  }
  return [...texts]
    .sort()
    .map(([name, text]) => `${name}: ${text.trim()}\n`)
    .join(`\n${'-'.repeat(80)}\n`);
}

const results = await Promise.all([
  build({
    ...shared,
    entryPoints: ['src/extension.ts'],
    outfile: 'out/extension.js',
    // Of all that this package has, only paths are used: the rest is loaded when it is imported.
    alias: { '@jupyterlab/coreutils': '@jupyterlab/coreutils/lib/path' },
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

await writeFile(join(top, 'out/licenses.txt'), await licenses(results));

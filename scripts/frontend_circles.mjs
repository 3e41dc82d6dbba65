// Fails where TypeScript files of the frontend import each other in a circle. Types, and what is loaded
// later by `import()`, count. Which folder may import which is said in eslint.config.mjs.

import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

const files = ['labextension/src', 'vscode/src'].flatMap(folder =>
  ts.sys.readDirectory(folder, ['.ts', '.tsx']).map(one => relative('.', one))
);

/** The file that *file* names by *path*; undefined for a package, an image or a notebook. */
function resolved(file, path) {
  const place = join(dirname(file), path);
  const names = [`${place}.ts`, `${place}.tsx`, `${place}/index.ts`];
  return path.startsWith('.')
    ? names.find(one => files.includes(one))
    : undefined;
}

const imports = new Map(
  files.map(file => [
    file,
    ts
      .preProcessFile(readFileSync(file, 'utf8'))
      .importedFiles.map(({ fileName }) => resolved(file, fileName))
      .filter(one => one !== undefined)
  ])
);

const free = new Set(); // of circles

/** Follows the imports of *file*, to which *path* has led. */
function follow(file, path) {
  const start = path.indexOf(file);
  if (start >= 0) {
    console.error(`A circle: ${[...path.slice(start), file].join(' -> ')}`);
    process.exit(1);
  }
  if (!free.has(file)) {
    imports.get(file).forEach(one => follow(one, [...path, file]));
    free.add(file);
  }
}

files.forEach(file => follow(file, []));

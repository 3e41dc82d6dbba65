// Prints the frontend's strings as JSON: the literals that the given TypeScript files pass to
// `trans.__` and `trans._n`, in the order of the files. Called by scripts/catalogue.py.

import { readFileSync } from 'node:fs';
import ts from 'typescript';

const strings = [];

function literal(node, source) {
  if (ts.isStringLiteralLike(node)) {
    return node.text;
  }
  if (
    ts.isBinaryExpression(node) &&
    node.operatorToken.kind === ts.SyntaxKind.PlusToken
  ) {
    return literal(node.left, source) + literal(node.right, source);
  }
  const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
  console.error(
    `${source.fileName}:${line + 1}: a string for translation must be a literal.`
  );
  process.exit(1);
}

function visit(node, source, file) {
  if (
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    /(^|\.)trans$/.test(node.expression.expression.getText(source))
  ) {
    const [one, many] = node.arguments;
    switch (node.expression.name.text) {
      case '__':
        strings.push({ file, text: literal(one, source) });
        break;
      case '_n':
        strings.push({
          file,
          text: literal(one, source),
          plural: literal(many, source)
        });
        break;
    }
  }
  ts.forEachChild(node, child => visit(child, source, file));
}

for (const file of process.argv.slice(2)) {
  if (file.endsWith('language/translation.ts')) {
    continue; // It hands on what others pass.
  }
  const text = readFileSync(file, 'utf8');
  const kind = file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const source = ts.createSourceFile(
    file,
    text,
    ts.ScriptTarget.Latest,
    true,
    kind
  );
  visit(source, source, file);
}
console.log(JSON.stringify(strings));

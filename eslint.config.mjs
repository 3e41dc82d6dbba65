import jupyterPlugin from '@jupyter/eslint-plugin';
import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import { defineConfig } from 'eslint/config';
import globals from 'globals';
import { readdirSync } from 'node:fs';
import tseslint from 'typescript-eslint';

/**
 * The floors of labextension/src, the lowest first. A folder, or a file at the top, imports from lower
 * floors only: types and what is loaded later, too. Those of one floor do not know each other.
 */
const FLOORS = [
  ['language'], // words, and other people's languages
  ['rest'], // the server's interface: types, requests, failures
  ['state'], // values that say when they change, and what the browser keeps
  ['model', 'ui'], // what the server has, in words, too | what all pages are made of
  ['actions'], // ids of commands, the table of actions, and the interface IPanelActions
  ['tokens.ts'], // what the plugins share
  ['files', 'forwarding', 'hunts', 'money', 'pod'], // from here on: subjects
  ['jobs', 'ray', 'serving'],
  ['kernels'],
  ['sessions'],
  ['chips', 'guard'],
  ['setup'],
  ['lifecycle'],
  ['operations'],
  ['environments'],
  ['panel'],
  ['tpuPage'],
  ['app'], // makes the actions of all subjects, the menus and the plugins
  ['index.ts']
];

const missing = readdirSync(new URL('labextension/src', import.meta.url))
  .filter(one => !FLOORS.flat().includes(one))
  .filter(one => one !== '__tests__' && !one.endsWith('.d.ts'));
if (missing.length > 0) {
  throw new Error(`On which floor is ${missing.join(', ')}?`);
}

/** Forbids *files* to import what matches *pattern*, a regular expression. */
function forbidden(files, pattern, message) {
  return {
    files: [files],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [{ regex: pattern, message }] }
      ],
      'no-restricted-syntax': [
        'error',
        ...['ImportExpression', 'TSImportType'].map(node => ({
          selector: `${node} Literal[value=/${pattern.replaceAll('/', '\\/')}/]`,
          message
        }))
      ]
    }
  };
}

const floors = FLOORS.flatMap((floor, level) =>
  floor.map(place => {
    const others = FLOORS.slice(level)
      .flat()
      .filter(one => one !== place)
      .map(one => one.replace('.ts', ''));
    const isFile = place.endsWith('.ts');
    return forbidden(
      `labextension/src/${isFile ? place : `${place}/**`}`,
      `^\\.${isFile ? '' : '\\.'}/(${others.join('|')})(/|$)`,
      `${place} is on a lower floor: see FLOORS in eslint.config.mjs.`
    );
  })
);

/** What VS Code shares with the panel. */
const SHARED = '(language|rest|state|model)/|[a-zA-Z]+/[a-zA-Z]+Labels$';

export default defineConfig([
  {
    ignores: [
      'labextension/lib',
      'vscode/out',
      'vscode/node_modules',
      'vscode/widgets/node_modules',
      'tests/browser/out',
      'jupyter_tpu',
      '**/*.d.ts'
    ]
  },
  js.configs.recommended,
  tseslint.configs.recommended,
  { plugins: { jupyter: jupyterPlugin } },
  jupyterPlugin.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    languageOptions: {
      globals: { ...globals.browser },
      parserOptions: {
        project: ['tsconfig.json', 'vscode/tsconfig.json'],
        sourceType: 'module'
      }
    },
    rules: {
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        }
      ],
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none' }],
      '@typescript-eslint/no-namespace': 'off',
      // The names of commands and the language are needed at activation.
      'jupyter/prefer-lazy-imports': [
        'warn',
        { ignoreImports: ['*/commandIDs', '*/translation'] }
      ],
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'prefer-arrow-callback': 'error'
    }
  },
  {
    files: ['**/__tests__/**'],
    rules: {
      'jupyter/no-untranslated-string': 'off',
      'jupyter/prefer-lazy-imports': 'off',
      'jupyter/require-disposable-ownership': 'off'
    }
  },
  {
    // JupyterLab's rules are not for VS Code.
    files: ['vscode/**'],
    rules: {
      'jupyter/no-untranslated-string': 'off',
      'jupyter/prefer-lazy-imports': 'off',
      'jupyter/require-disposable-ownership': 'off'
    }
  },
  ...floors,
  forbidden(
    'vscode/src/**',
    `labextension/src/(?!${SHARED})`,
    'VS Code imports the panel’s language, rest, state, model and labels only.'
  ),
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: { ...globals.node } }
  },
  prettier
]);

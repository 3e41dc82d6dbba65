import jupyterPlugin from '@jupyter/eslint-plugin';
import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import { defineConfig } from 'eslint/config';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default defineConfig([
  {
    ignores: [
      'labextension/lib',
      'vscode/out',
      'vscode/node_modules',
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
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: { ...globals.node } }
  },
  prettier
]);

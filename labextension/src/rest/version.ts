// Made by scripts/typescript_types.py from package.json: don't edit, run `make types`.

/** The version of this page. */
export const VERSION = '0.1.0';

import js from '@eslint/js';
import globals from 'globals';

const rules = { eqeqeq: 'error', 'no-var': 'error', 'prefer-const': 'error' };
const languageOptions = { ecmaVersion: 2023, sourceType: 'module' };

// The script of the pages, and the tests, parts of which run in the page.
export default [
  js.configs.recommended,
  { files: ['crates/gauge/src/**/*.js'], languageOptions: { ...languageOptions, globals: globals.browser }, rules },
  {
    files: ['crates/gauge/tests/**/*.js'],
    languageOptions: { ...languageOptions, globals: { ...globals.node, ...globals.browser } },
    rules,
  },
];

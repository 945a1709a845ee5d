// What ESLint checks in the modules of the web UI. Names that are not defined are found by tsc.

import js from "@eslint/js";

export default [
  { ignores: ["**/vendor/**"] },
  js.configs.recommended,
  {
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-control-regex": "off", // ansi.js reads the control characters of terminals
      "no-else-return": "error",
      "no-implicit-coercion": "error",
      "no-nested-ternary": "off",
      "no-sequences": "error",
      "no-undef": "off",
      "no-unused-vars": ["error", { ignoreRestSiblings: true, varsIgnorePattern: "^_" }],
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
];

#!/usr/bin/env bash
# eslint over every Node service, each with its own version and rules, and over the console.
source "$(dirname "$0")/../lib.sh"
for config in services/*/eslint.config.js; do
  service=$(dirname "$config")
  need_npm "$service"
  (cd "$service" && node_modules/.bin/eslint --max-warnings 0 .)
done
# The pages of Weir's console have no package of their own: they are judged with the tools of their tests.
tests=crates/weir/tests/browser
need_npm "$tests"
"$tests/node_modules/.bin/eslint" --config "$tests/eslint.config.js" --max-warnings 0 "$tests" crates/weir/src/admin/console/web
tests=crates/gauge/tests/browser
need_npm "$tests"
"$tests/node_modules/.bin/eslint" --config "$tests/eslint.config.js" --max-warnings 0 "$tests" crates/gauge/src/ui/web

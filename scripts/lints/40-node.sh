#!/usr/bin/env bash
# eslint over every Node service, each with its own version and rules.
source "$(dirname "$0")/../lib.sh"
for config in services/*/eslint.config.js; do
  service=$(dirname "$config")
  need_npm "$service"
  (cd "$service" && node_modules/.bin/eslint --max-warnings 0 .)
done

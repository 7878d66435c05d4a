#!/usr/bin/env bash
# Tokens of a certified OpenID provider (npm oidc-provider) through Weir: discovery, algorithms, rotation of keys, an issuer that is killed.
source "$(dirname "$0")/../suite.sh"
suite=oidc
source "$root/scripts/lib-services.sh"
here=$root/crates/weir/tests/oidc
need_npm "$here"
need_weir

in_node() { (cd "$here" && WEIR=$weir exec node --test --test-reporter=tap oidc.test.js page.test.js); }
step provider in_node

count_line "$passed" "$failed" "$skipped"
exit "$code"

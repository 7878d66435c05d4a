#!/usr/bin/env bash
# apidoc against published parsers and validators, and on large public descriptions (fetched, pinned by checksum).
source "$(dirname "$0")/../suite.sh"
need_program npm "It comes with Node.js 20 or newer, which runs this part of the tests."
need_program go "Go 1.23 or newer fetches two of the public descriptions."
here=$root/crates/apidoc/tests/published
golden=$root/crates/apidoc/tests/golden
# shellcheck source=scripts/documents.sh
source "$(dirname "$0")/../documents.sh"

say "building"
cargo build --quiet --locked --workspace --example describe
describe=$CARGO_TARGET_DIR/debug/examples/describe
need_npm "$here"
python=$(need_venv apidoc "$here/requirements.txt")/bin/python
passed=0 failed=0

# part KEYWORD COMMAND...: counts the line "KEYWORD PASSED FAILED" that the command prints. One that prints none, tests nothing, or exits
# with another code than 0 has failed.
part() {
  local keyword=$1 log=$logs/apidoc-$1.log counts code=0 p f; shift
  "$@" >"$log" 2>&1 || code=$?
  cat "$log"
  counts=$(grep -E "^$keyword [0-9]+ [0-9]+$" "$log" | tail -n 1 | cut -d' ' -f2-) || true
  read -r p f <<<"${counts:-0 0}"
  if [ "$f" = 0 ] && { [ "$code" != 0 ] || [ "$p" = 0 ]; }; then say "$keyword: exit code $code, $p passed"; f=1; fi
  passed=$((passed + p)) failed=$((failed + f))
}
# cargo's line for one test file.
public_documents() {
  local code=0
  APIDOC_DOCUMENTS=$docs cargo test --locked --workspace --test large -- --ignored public_documents >"$logs/apidoc-raw.log" 2>&1 || code=$?
  cat "$logs/apidoc-raw.log"
  sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed.*/rust \1 \2/p' "$logs/apidoc-raw.log"
  return "$code"
}

say "reading public descriptions"
part rust public_documents

say "publishing public descriptions with Weir"
need_weir
part gateway "$python" "$here/gateway.py" "$weir" "$docs"

say "writing OpenAPI and Swagger, making example bodies"
part openapi "$python" "$here/check.py" "$describe" "$golden"/biwi/biwi.raml services/auction/{openapi.yaml,auction.swagger.json} "$golden"/openapi/{references,schemas}.yaml "$golden"/openapi/parameters.json \
  "$docs"/{kubernetes.json,stripe.json,blockfrost.yaml}

say "writing RAML"
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
for file in "$golden"/biwi/biwi.openapi.yaml "$golden"/openapi/{references,schemas}.yaml "$golden"/openapi/parameters.json "$golden"/swagger2/petstore.yaml \
  "$golden"/blueprint/full.apib "$golden"/raml/templates.raml "$docs"/{github,kubernetes}.json; do
  "$describe" "$file" raml >"$out/$(basename "$file").raml" 2>"$logs/apidoc-describe.log" ||
    { cat "$logs/apidoc-describe.log"; say "FAILED to write $file as RAML"; failed=$((failed + 1)); }
done
part raml node "$here/raml.js" "$golden"/biwi/biwi.raml services/auction/auction.raml "$golden"/raml/templates.raml "$out"/*.raml

say "reading API Blueprint"
part blueprint node "$here/blueprint.js" "$describe" "$golden"/biwi/biwi.apib "$golden"/blueprint/full.apib "$docs"/*.apib

count_line "$passed" "$failed"
[ "$failed" = 0 ]

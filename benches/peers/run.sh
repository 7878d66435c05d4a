# shellcheck shell=bash disable=SC2154
# Every gateway that is here, compared by gauge: EVALUATION chooses another file than examples/evaluations/full.yaml. About an hour; ends and goes on.
need_measured
need_peers
need_program go "Go 1.26 or newer builds Fiber's gateway and the services: https://go.dev/doc/install"
exec gauge run "${EVALUATION:-examples/evaluations/full.yaml}" --out "$out" "$@"

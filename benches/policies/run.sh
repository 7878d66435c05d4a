# shellcheck shell=bash disable=SC2154
# What authentication, two limits, metrics and an access log cost in Weir, Envoy and Traefik, each against itself without them.
need nginx
need_measured
peers=$(need_venv gauge-gateways crates/gauge/tests/gateways/requirements.txt)
PATH=$PATH:$peers/bin:$("$peers/bin/python" -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin")')
export PATH
exec python3 benches/policies/policies.py --weir "$weir" --out "$out" "$@"
